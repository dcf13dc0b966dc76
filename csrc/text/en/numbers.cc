// English numbers: the rule that takes the most words.
#include <algorithm>

#include "text/en/number_rules.h"
#include "text/en/spoken_numbers.h"

namespace asr_stream {

namespace {

using Rule = Shown (Rules::*)(std::size_t) const;

constexpr Rule kRules[] = {&Rules::address,  &Rules::hours,         &Rules::range,   &Rules::height, &Rules::counting,
                           &Rules::phrase,   &Rules::house,         &Rules::time,    &Rules::days,   &Rules::date,
                           &Rules::money,    &Rules::mixed,         &Rules::measure, &Rules::digits, &Rules::military_time,
                           &Rules::year,     &Rules::ordinal,       &Rules::lettered, &Rules::amount, &Rules::letters};

// Whether a word can be part of a number, or tell whether another one is.
bool has_role(const std::string& word, const NumberTables& tables) {
  const bool is_letter = !word.empty() && word[0] >= 'a' && word[0] <= 'z' &&
                         (word.size() == 1 || word.substr(1) == "s" || word.substr(1) == "'s");
  return is_letter || tables.roles.count(word) != 0;
}

}  // namespace

std::vector<ShownToken> format_english_numbers(const std::vector<std::string>& words, std::size_t first,
                                               std::size_t num_stable, std::size_t* num_settled) {
  const NumberTables& tables = english_numbers();
  const SpokenNumbers spoken(words, tables);
  const Rules rules{spoken, tables};
  std::vector<ShownToken> result;
  bool is_settled = num_settled != nullptr;
  if (is_settled) *num_settled = 0;
  for (std::size_t i = first; i < words.size();) {
    Shown best;
    const bool is_spoken_of = has_role(words[i], tables);
    if (is_spoken_of || has_role(spoken.word(i + 1), tables)) {
      for (const Rule rule : kRules) {
        Shown found = (rules.*rule)(i);
        if (!found.empty() && (best.empty() || found.back().last > best.back().last)) best = std::move(found);
      }
    }
    if (best.empty()) best.push_back({words[i], i, i});
    i = best.back().last + 1;
    const bool is_word = !is_spoken_of && best.size() == 1 && best[0].first == best[0].last;
    is_settled = is_settled && i <= num_stable && spoken.reach() <= (is_word ? words.size() : num_stable);
    if (is_settled) *num_settled += best.size();
    std::move(best.begin(), best.end(), std::back_inserter(result));
  }
  return result;
}

}  // namespace asr_stream
