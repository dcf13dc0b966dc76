// The words that can follow a word, and the probability of the most likely one with a given prefix: bigram look-ahead
// (Ortmanns et al. 1997, "Language-model look-ahead for large vocabulary speech recognition"). When a search scores an
// incomplete word by its predecessor, it needs a smaller beam for the same accuracy.
//
// Words with the same prefix are adjacent in the lexicon. So the continuations of each word are sorted in the order of
// the lexicon, and a longer prefix is a narrower range of them. They are sorted when a search needs them first, because
// to sort those of all words would take as long as everything else in opening a model, and a stream needs few of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "search/lexicon.h"

namespace asr_stream {

class NgramLm;

// Thread-safe.
class LookAhead {
 public:
  // A range of the continuations of a word; may be empty.
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
  ~LookAhead();
  LookAhead(const LookAhead&) = delete;
  LookAhead& operator=(const LookAhead&) = delete;

  // The continuations of `word` that begin with the byte of `child`, a child of the lexicon's root. This and `narrow`
  // may throw std::bad_alloc.
  Continuations begin(std::int32_t word, std::int32_t child, Cache& cache) const;
  // Narrows `range`, the continuations of `word` that begin with the bytes of `parent`, to those that begin with the
  // bytes of `child`, a child of `parent`.
  Continuations narrow(std::int32_t word, Range range, std::int32_t parent, std::int32_t child, Cache& cache) const;

 private:
  // Maximum number of pronunciations per word; otherwise a small file could take much memory.
  static constexpr std::uint32_t kMaxPlaces = 16;

  // The continuations of a word, in the order of the lexicon. In one allocation, because most words have few.
  struct Sorted {
    std::uint32_t size;
    const std::uint32_t* places;  // their positions in the lexicon
    const std::uint8_t* codes;    // their quantized log-probabilities
  };

  Sorted sorted(std::int32_t word) const;
  std::unique_ptr<std::uint32_t[]> sort(std::int32_t word) const;
  std::pair<std::uint32_t, std::uint32_t> places_of(std::uint32_t bigram) const noexcept;
  Continuations find(const Sorted& continuations, Range range, std::int32_t parent, std::int32_t child) const noexcept;

  const NgramLm& lm_;
  const Lexicon& lexicon_;
  std::vector<std::uint32_t> first_place_;  // of each word in `places_`, and the end
  std::vector<std::uint32_t> places_;       // positions of the words in the lexicon, ascending for each word
  // Of each word: its number of continuations, their places, and their codes, four in a number. Null before a search
  // needs them.
  mutable std::vector<std::atomic<const std::uint32_t*>> sorted_;
};

}  // namespace asr_stream
