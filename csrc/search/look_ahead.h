// Which words can follow a word, and how likely the likeliest of those with a given beginning is: the look-ahead of
// Ortmanns et al. 1997, "Language-model look-ahead for large vocabulary speech recognition", with bigrams. A search
// that scores an incomplete word by the word before it keeps as good a beam with fewer hypotheses.
//
// The words of a lexicon that share a beginning lie side by side in it. So the continuations of each word are kept in
// the order of the lexicon, and a longer beginning is a narrower range of them.
#pragma once

#include <cstdint>
#include <vector>

#include "search/lexicon.h"
#include "search/packed_numbers.h"

namespace asr_stream {

class NgramLm;

// Immutable.
class LookAhead {
 public:
  // Of the continuations of all words; empty: none of them.
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  // `lm`: of order 2 or higher. Both must outlive this.
  LookAhead(const NgramLm& lm, const Lexicon& lexicon);

  Range continuations(std::int32_t word) const noexcept {
    const auto [begin, end] = ranges_[static_cast<std::size_t>(word)];
    return {begin, end};
  }
  // Of those that begin with the bytes of `parent`, those that begin with the bytes of `child`, one of its children.
  Range narrow(Range range, std::int32_t parent, std::int32_t child) const noexcept;
  // The highest log-probability of the bigrams in `range`, which must not be empty.
  float best_log_prob(Range range) const noexcept;

 private:
  // Of a word with more pronunciations, the first: else a small file could take much memory.
  static constexpr std::uint32_t kMaxPlaces = 16;

  const NgramLm& lm_;
  const Lexicon& lexicon_;
  PackedRanges ranges_;              // each word's continuations
  PackedNumbers places_;             // of the continuations in the lexicon, ascending within each word's
  std::vector<std::uint8_t> codes_;  // their quantized log-probabilities
};

}  // namespace asr_stream
