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

  // Continuations that a search has asked for, because it repeats its requests: 256 KB from the first one on. For one
  // thread and one look-ahead.
  class Cache {
   public:
    // Those of `word` that begin with the bytes of `child`; `find` gives them where they are not stored.
    template <typename Find>
    const Continuations& get(std::int32_t word, std::int32_t child, Find find) {
      if (places_.empty()) places_.resize(kSize);
      const auto hash =
          static_cast<std::uint32_t>(word) * 2654435761u ^ static_cast<std::uint32_t>(child) * 2246822519u;
      Place& place = places_[(hash ^ hash >> 15) % kSize];
      if (place.child != child || place.word != word) place = {word, child, find()};
      return place.continuations;
    }

   private:
    struct alignas(32) Place {
      std::int32_t word = 0;
      std::int32_t child = Lexicon::kRoot;  // none
      Continuations continuations;
    };
    static constexpr std::size_t kSize = 8192;

    std::vector<Place> places_;
  };

  // `lm`: of order 2 or higher. Both must outlive this.
  LookAhead(const NgramLm& lm, const Lexicon& lexicon);

  // The continuations of `word` that begin with the byte of `child`, a child of the lexicon's root.
  Continuations begin(std::int32_t word, std::int32_t child, Cache& cache) const;
  // The part of `range`, continuations of `word` that begin with the bytes of `parent`, that begins with the bytes of
  // `child`, one of its children.
  Continuations narrow(std::int32_t word, Range range, std::int32_t parent, std::int32_t child, Cache& cache) const;

 private:
  // At most this many pronunciations of a word count: otherwise a small file could take much memory.
  static constexpr std::uint32_t kMaxPlaces = 16;

  Continuations find(Range range, std::int32_t parent, std::int32_t child) const noexcept;

  const NgramLm& lm_;
  const Lexicon& lexicon_;
  PackedRanges ranges_;              // each word's continuations
  PackedNumbers places_;             // of the continuations in the lexicon, ascending within each word's
  std::vector<std::uint8_t> codes_;  // their quantized log-probabilities
};

}  // namespace asr_stream
