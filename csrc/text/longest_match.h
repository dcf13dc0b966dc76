// Applies the number rules of a language: at each word, the rule that covers the most words wins.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "text/language.h"

namespace asr_stream {

// The words of a text; records how far the rules looked. Not thread-safe.
class LookedAt {
 public:
  explicit LookedAt(const std::vector<std::string>& words) : words_(words) {}

  const std::string& word(std::size_t i) const {  // "" outside
    static const std::string none;
    reach_ = std::max(reach_, i + 1);
    return i < words_.size() ? words_[i] : none;
  }
  std::size_t reach() const noexcept { return reach_; }  // results so far do not depend on this word or later ones

 private:
  const std::vector<std::string>& words_;
  mutable std::size_t reach_ = 0;
};

// See Language::numbers. looked_at: how far all rules so far have looked. has_role(word): whether it can be part of a
// number or affect whether another word is. match(i): the tokens of the rule that covers the most words from word i on;
// empty if there is none.
template <typename Reader, typename HasRole, typename Match>
std::vector<ShownToken> longest_matches(const std::vector<std::string>& words, std::size_t first,
                                        std::size_t num_stable, std::size_t* num_settled, const Reader& looked_at,
                                        HasRole has_role, Match match) {
  std::vector<ShownToken> result;
  bool is_settled = num_settled != nullptr;
  if (is_settled) *num_settled = 0;
  for (std::size_t i = first; i < words.size();) {
    std::vector<ShownToken> best;
    const bool has_own_role = has_role(words[i]);
    if (has_own_role || has_role(looked_at.word(i + 1))) best = match(i);
    if (best.empty()) best.push_back({words[i], i, i});
    i = best.back().last + 1;
    const bool is_word = !has_own_role && best.size() == 1 && best[0].first == best[0].last;
    is_settled = is_settled && i <= num_stable && looked_at.reach() <= (is_word ? words.size() : num_stable);
    if (is_settled) *num_settled += best.size();
    std::move(best.begin(), best.end(), std::back_inserter(result));
  }
  return result;
}

}  // namespace asr_stream
