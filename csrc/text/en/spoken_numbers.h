// Numbers among spoken words: which words form a number, and its digits.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/en/number_tables.h"
#include "text/longest_match.h"

namespace asr_stream {

// The words of a text, in lower case, and their meaning in a language. Parses numbers, but does not decide whether a
// number is written in digits. Positions are indexes of words; ranges are half-open. Not thread-safe.
class SpokenNumbers : public LookedAt {
 public:
  struct Integer {
    std::string digits;    // without leading zeros
    bool is_article;       // "a hundred", "a million": often not meant as a number
    int scale;             // "five million": 2, and digits is "5"; 0 if digits has the whole number
    std::size_t end;
    bool is_below(int limit) const { return scale == 0 && digits.size() <= 4 && std::stoi(digits) < limit; }
  };
  struct DigitString {
    std::string digits;
    std::size_t num_atoms;    // spoken parts
    std::size_t num_singles;  // parts that are one digit or a repeated digit
    bool has_zero;            // as a word, or a "double"
    std::size_t end;
  };

  SpokenNumbers(const std::vector<std::string>& words, const NumberTables& tables)
      : LookedAt(words), tables_(tables) {}

  bool is(std::size_t i, const NumberTables::Words& set) const { return set.count(word(i)) != 0; }
  bool is(std::size_t i, std::string_view text) const { return word(i) == text; }
  bool is_letter(std::size_t i) const;

  // The longest phrase of `table` that begins at word i: returns its number of words, or 0. value: that of the entry.
  template <typename Table>
  std::size_t find(const Table& table, std::size_t i, typename Table::mapped_type& value) const {
    std::size_t longest = 0;
    std::string phrase = word(i);
    for (std::size_t n = 1;; ++n) {
      if (const auto found = table.find(phrase); found != table.end()) {
        value = found->second;
        longest = n;
      }
      if (!tables_.phrase_beginnings.count(phrase)) return longest;  // avoids unnecessary look-ahead
      phrase += " " + word(i + n);
    }
  }

  std::optional<int> digit(std::size_t i) const;                        // 1 to 9
  std::optional<int> any_digit(std::size_t i) const;                    // 0 to 9
  std::size_t below_hundred(std::size_t i, int& value, bool ordinal = false) const;  // number of words; 0: none
  std::optional<Integer> integer(std::size_t i, bool ordinal) const;
  // "nineteen ninety four", "twenty oh five", "two thousand nine". end: the position after it.
  std::optional<int> year(std::size_t i, std::size_t& end, int first_century = 11) const;
  DigitString digit_string(std::size_t i) const;   // empty if there is none
  // Digits after "point": "one four", "fourteen", "oh five". Empty if there are none.
  std::string fraction(std::size_t i, std::size_t& end) const;
  bool is_number(std::size_t i) const;  // whether the word is part of a number

 private:
  std::size_t below_thousand(std::size_t i, int& value, bool ordinal, bool& ended) const;

  const NumberTables& tables_;
};

std::string with_commas(const std::string& digits);       // "12345": "12,345"
std::string with_ordinal_suffix(const std::string& digits);  // "21": "21st"

}  // namespace asr_stream
