#include "text/numbers.h"

#include <algorithm>

#include "text/number_rules.h"
#include "text/spoken_numbers.h"

namespace asr_stream {

namespace {

using Rule = Shown (Rules::*)(std::size_t) const;

constexpr Rule kRules[] = {&Rules::address, &Rules::range,   &Rules::phrase, &Rules::time,    &Rules::date,
                           &Rules::money,   &Rules::measure, &Rules::digits, &Rules::year,    &Rules::ordinal,
                           &Rules::amount,  &Rules::letters};

// Whether a word can be part of a number, or tell whether another one is.
bool has_role(const std::string& word, const NumberTables& tables) {
  const bool is_letter = !word.empty() && word[0] >= 'a' && word[0] <= 'z' &&
                         (word.size() == 1 || word.substr(1) == "s" || word.substr(1) == "'s");
  return is_letter || tables.roles.count(word) != 0;
}

}  // namespace

std::size_t num_settled_words(const std::vector<std::string>& words, const NumberTables& tables) {
  // No rule reaches over two words without a role.
  for (std::size_t i = words.size(); i-- > 1;) {
    if (!has_role(words[i], tables) && !has_role(words[i - 1], tables)) return i;
  }
  return 0;
}

std::vector<ShownToken> format_numbers(const std::vector<std::string>& words, const NumberTables& tables) {
  const SpokenNumbers spoken(words, tables);
  const Rules rules{spoken, tables};
  std::vector<ShownToken> result;
  for (std::size_t i = 0; i < words.size();) {
    Shown best;
    if (has_role(words[i], tables) || (i + 1 < words.size() && has_role(words[i + 1], tables))) {
      for (const Rule rule : kRules) {
        Shown found = (rules.*rule)(i);
        if (!found.empty() && (best.empty() || found.back().last > best.back().last)) best = std::move(found);
      }
    }
    if (best.empty()) best.push_back({words[i], i, i});
    i = best.back().last + 1;
    std::move(best.begin(), best.end(), std::back_inserter(result));
  }
  return result;
}

}  // namespace asr_stream
