// Formats English numbers with the rule that covers the most words.
#include <string>
#include <utility>
#include <vector>

#include "text/en/number_rules.h"
#include "text/en/spoken_numbers.h"
#include "text/longest_match.h"

namespace asr_stream {

namespace {

using Rule = Shown (Rules::*)(std::size_t) const;

constexpr Rule kRules[] = {&Rules::address, &Rules::hours,    &Rules::range,  &Rules::height,
                           &Rules::counting, &Rules::phrase,  &Rules::verse,  &Rules::sets,
                           &Rules::price,   &Rules::code,     &Rules::house,  &Rules::time,
                           &Rules::days,    &Rules::date,     &Rules::money,  &Rules::mixed,
                           &Rules::measure, &Rules::age,      &Rules::digits, &Rules::military_time,
                           &Rules::year,    &Rules::ordinal,  &Rules::lettered, &Rules::amount,
                           &Rules::letters};

// Whether a word can be part of a number or affect whether another word is.
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
  const auto match = [&rules](std::size_t i) {
    Shown best;
    for (const Rule rule : kRules) {
      Shown found = (rules.*rule)(i);
      if (!found.empty() && (best.empty() || found.back().last > best.back().last)) best = std::move(found);
    }
    return best;
  };
  return longest_matches(
      words, first, num_stable, num_settled, spoken, [&](const std::string& word) { return has_role(word, tables); },
      match);
}

}  // namespace asr_stream
