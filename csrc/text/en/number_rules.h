// The rules for English numbers. Each takes the index of a word and returns how the words from there are shown, or
// nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "text/en/number_tables.h"
#include "text/en/spoken_numbers.h"
#include "text/language.h"

namespace asr_stream {

using Shown = std::vector<ShownToken>;  // for consecutive words; empty if the rule does not apply

// A quantity: "5", "2.5" million, "-60", "12,000".
struct Amount {
  std::string text;
  std::size_t end;
  std::size_t scale;   // index of "million"; `end` if there is none
  bool is_small;       // below ten, without a fraction or unit
  bool is_article;     // "a hundred"
  bool is_decimal;
  bool is_pair;        // "one fifty": "150"; before a unit or currency also "twelve fifty": "1,250"
};

struct Rules {
  const SpokenNumbers& spoken;
  const NumberTables& tables;

  Shown time(std::size_t i) const;
  Shown military_time(std::size_t i) const;
  Shown date(std::size_t i) const;
  Shown days(std::size_t i) const;     // two days
  Shown money(std::size_t i) const;
  Shown price(std::size_t i) const;    // without a currency
  Shown measure(std::size_t i) const;
  Shown age(std::size_t i) const;
  Shown mixed(std::size_t i) const;    // mixed numbers, with a fraction
  Shown digits(std::size_t i) const;   // telephone numbers, codes
  Shown year(std::size_t i) const;
  Shown ordinal(std::size_t i) const;
  Shown amount(std::size_t i) const;   // numbers by themselves
  Shown phrase(std::size_t i) const;

  // Two numbers that belong together. Both are shown in words or both in digits.
  Shown hours(std::size_t i) const;
  Shown range(std::size_t i) const;
  Shown height(std::size_t i) const;  // or weight
  Shown counting(std::size_t i) const;

  Shown address(std::size_t i) const;  // e-mail, web, IP
  Shown house(std::size_t i) const;
  Shown verse(std::size_t i) const;    // of the Bible
  Shown sets(std::size_t i) const;     // of a match
  Shown lettered(std::size_t i) const;
  Shown code(std::size_t i) const;     // digits and letters that begin with a digit
  Shown letters(std::size_t i) const;

 private:
  bool read(std::size_t i, Amount& amount) const;
  bool follows_number(std::size_t i) const;
  bool is_counted(std::size_t i) const;  // a noun that is counted or measured
  bool means_money(std::size_t i) const;
  bool follows_total(std::size_t i) const;
  bool is_day(std::size_t i) const;
  bool is_compound(std::size_t i) const;
  bool is_ordered(std::size_t first, std::size_t end, int value) const;
  bool ends_pair(std::size_t first, std::size_t end) const;
  int shared_factor(const Amount& low, const Amount& high) const;
  bool is_clock_time(std::size_t i) const;  // whether a time follows: "p m", "in the morning"
  Shown words(std::size_t first, std::size_t end) const;
  void add(Shown& shown, const Amount& amount, std::size_t first, const std::string& symbol, std::size_t end) const;
  void add_word(Shown& shown, std::size_t i) const { shown.push_back({spoken.word(i), i, i}); }
  bool add_phrase(Shown& shown, const NumberTables::Texts& table) const;  // a phrase that follows `shown`
  std::size_t half_of_day(std::size_t i) const;  // number of its words
  bool hour_and_minute(std::size_t i, Shown& shown) const;
  bool relative_time(std::size_t i, Shown& shown) const;
  std::size_t label(std::size_t i, std::string& text, bool of_domain) const;
  std::size_t domain(std::size_t i, std::string& text) const;
  std::size_t ip_address(std::size_t i, std::string& text) const;
};

}  // namespace asr_stream
