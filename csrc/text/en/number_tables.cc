#include "text/en/number_tables.h"

#include <algorithm>

namespace asr_stream {

void NumberTables::collect_roles() {
  const auto add = [&](const std::string& phrase, bool has_role = true) {
    for (std::size_t begin = 0; begin <= phrase.size();) {
      const std::size_t end = std::min(phrase.find(' ', begin), phrase.size());
      if (has_role) roles.insert(phrase.substr(begin, end - begin));
      if (end < phrase.size()) phrase_beginnings.insert(phrase.substr(0, end));
      begin = end + 1;
    }
  };
  for (const Values* values : {&small, &tens, &ordinals, &ordinal_tens, &decades, &magnitudes, &ordinal_magnitudes,
                               &repeats}) {
    for (const auto& [word, value] : *values) add(word);
  }
  for (const Words* words :
       {&zeros, &minus, &oclock, &minutes, &time_prepositions, &times_of_day, &year_prepositions, &cents, &counted,
        &range, &number_cues, &top_level_domains, &protocols}) {
    for (const std::string& word : *words) add(word);
  }
  for (const Texts* texts : {&month_names, &halves_of_day, &zones, &eras, &units, &titles, &address_marks}) {
    for (const auto& [phrase, text] : *texts) add(phrase);
  }
  for (const auto& [phrase, currency] : currencies) add(phrase);
  for (const Texts* texts : {&parts_of_day, &out_of, &phrases}) {
    for (const auto& [phrase, text] : *texts) add(phrase, false);
  }
  for (const auto& [phrase, text] : phrases) roles.insert(phrase.substr(0, phrase.find(' ')));
}

}  // namespace asr_stream
