// The words that can follow a word, and the probability of the most likely one with a given prefix: bigram look-ahead
// (Ortmanns et al. 1997, "Language-model look-ahead for large vocabulary speech recognition"). When a search scores an
// incomplete word by its predecessor, it needs a smaller beam for the same accuracy.
//
// Words with the same prefix are adjacent in the lexicon. So the continuations of each word are stored in the order of
// the lexicon, and a longer prefix is a narrower range of them.
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
  // A range of the continuations of all words; may be empty.
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
  };

  struct Continuations {
    Range range;
    float best_log_prob = -std::numeric_limits<float>::infinity();  // highest of these bigrams; minus infinity if none
  };

  // Caches the continuations that a search has requested, because it repeats its requests. It takes 256 KB from the
  // first request on. For one thread and one look-ahead.
  class Cache {
   public:
    // The continuations of `word` that begin with the bytes of `child`; calls `find` if they are not cached.
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
      std::int32_t child = Lexicon::kRoot;  // an empty slot
      Continuations continuations;
    };
    static constexpr std::size_t kSize = 8192;

    std::vector<Place> places_;
  };

  // `lm`: of order 2 or higher. Both must outlive this.
  LookAhead(const NgramLm& lm, const Lexicon& lexicon);

  // The continuations of `word` that begin with the byte of `child`, a child of the lexicon's root.
  Continuations begin(std::int32_t word, std::int32_t child, Cache& cache) const;
  // Narrows `range`, the continuations of `word` that begin with the bytes of `parent`, to those that begin with the
  // bytes of `child`, a child of `parent`.
  Continuations narrow(std::int32_t word, Range range, std::int32_t parent, std::int32_t child, Cache& cache) const;

 private:
  // Maximum number of pronunciations per word; otherwise a small file could take much memory.
  static constexpr std::uint32_t kMaxPlaces = 16;

  Continuations find(Range range, std::int32_t parent, std::int32_t child) const noexcept;

  const NgramLm& lm_;
  const Lexicon& lexicon_;
  PackedRanges ranges_;              // the continuations of each word
  PackedNumbers places_;             // positions of the continuations in the lexicon, ascending for each word
  std::vector<std::uint8_t> codes_;  // quantized log-probabilities of the continuations
};

}  // namespace asr_stream
