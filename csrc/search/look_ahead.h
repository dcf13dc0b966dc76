// The words that can follow a word, and the probability of the most likely one with a given prefix: the look-ahead of
// Ortmanns et al. 1997, "Language-model look-ahead for large vocabulary speech recognition", with bigrams. A search
// that scores an incomplete word given the previous word needs fewer hypotheses for an equally good beam.
//
// The words of a lexicon with the same prefix are adjacent in it. So the continuations of each word are stored in the
// order of the lexicon, and a longer prefix is a narrower range of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "search/lexicon.h"
#include "search/packed_numbers.h"

namespace asr_stream {

class NgramLm;

// Immutable.
class LookAhead {
 public:
  // A range in the continuations of all words; may be empty.
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  struct Continuations {
    Range range;
    float best_log_prob = -std::numeric_limits<float>::infinity();  // of their bigrams; none: minus infinity
  };

  // `lm`: of order 2 or higher. Both must outlive this.
  LookAhead(const NgramLm& lm, const Lexicon& lexicon);

  // The continuations of `word` that begin with the byte of `child`, a child of the lexicon's root.
  Continuations begin(std::int32_t word, std::int32_t child) const;
  // The part of `range`, continuations of `word` that begin with the bytes of `parent`, that begins with the bytes of
  // `child`, one of its children.
  Continuations narrow(std::int32_t word, Range range, std::int32_t parent, std::int32_t child) const;

 private:
  // Only the first pronunciation of a word counts: otherwise a small file could take much memory.
  static constexpr std::uint32_t kMaxPlaces = 16;

  // A search repeats its requests: each thread caches some, for any look-ahead, in 256 KB.
  struct alignas(32) Remembered {
    std::uint64_t owner = 0;
    std::int32_t word = 0, child = 0;
    Continuations continuations;
  };
  static constexpr std::size_t kNumRemembered = 8192;

  Remembered& remembered(std::int32_t word, std::int32_t child) const;
  bool remembers(const Remembered& place, std::int32_t word, std::int32_t child) const noexcept {
    return place.child == child && place.word == word && place.owner == id_;
  }
  Continuations find(Range range, std::int32_t parent, std::int32_t child) const noexcept;

  const std::uint64_t id_;  // in this process
  const NgramLm& lm_;
  const Lexicon& lexicon_;
  PackedRanges ranges_;              // each word's continuations
  PackedNumbers places_;             // of the continuations in the lexicon, ascending within each word's
  std::vector<std::uint8_t> codes_;  // their quantized log-probabilities
};

}  // namespace asr_stream
