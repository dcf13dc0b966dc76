// Inverse text normalization: spoken words in, the numbers among them in digits.
//
//     at nine thirty she paid twenty five dollars   ->   at 9:30 she paid $25
//
// A small grammar over the tables of a language: at each word the rule that takes the most words wins, of equals the
// earlier one. Where digits would be a guess words stay: "one" alone, what is below ten without a unit, "a hundred".
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "text/number_tables.h"

namespace asr_stream {

// What is shown for the words `first` to `last`.
struct ShownToken {
  std::string text;
  std::size_t first, last;
};

// The words, which are in lower case, as they are shown: every word is in one token, in order. A word that is no part
// of a number is a token as it is, whatever it holds.
std::vector<ShownToken> format_numbers(const std::vector<std::string>& words,
                                       const NumberTables& tables = english_numbers());

// How many leading words are shown the same whatever follows: a number may go on. They may be formatted by themselves,
// and so may what follows them.
std::size_t num_settled_words(const std::vector<std::string>& words, const NumberTables& tables = english_numbers());

}  // namespace asr_stream
