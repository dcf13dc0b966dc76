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

namespace asr_stream {

// What is shown for the words `first` to `last`.
struct ShownToken {
  std::string text;
  std::size_t first, last;
};

// The words from `first` on, which are in lower case, as they are shown: every word is in one token, in order. A word
// that is no part of a number is a token as it is, whatever it holds. `first` is where a token begins; words before it
// tell what those behind them mean.
//
// Of a text that goes on and whose first `num_stable` words stay, *num_settled are the leading tokens that stay, too:
// no rule has looked at other words. Only an address may begin with a word that is in no table. What is known of the
// word behind such a one is enough, even if it changes.
std::vector<ShownToken> format_numbers(const std::vector<std::string>& words, std::size_t first = 0,
                                       std::size_t num_stable = 0, std::size_t* num_settled = nullptr);

}  // namespace asr_stream
