#include "search/look_ahead.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "search/ngram_lm.h"
#include "search/packed_numbers.h"

namespace asr_stream {

LookAhead::LookAhead(const NgramLm& lm, const Lexicon& lexicon)
    : lm_(lm),
      lexicon_(lexicon),
      first_place_(lm.num_words() + 1, 0),
      places_(lexicon.num_places()),
      sorted_(lm.num_words()) {
  for (std::uint32_t i = 0; i < places_.size(); ++i) ++first_place_[static_cast<std::size_t>(lexicon.word_at(i)) + 1];
  for (std::size_t word = 0; word < lm.num_words(); ++word) first_place_[word + 1] += first_place_[word];
  std::vector<std::uint32_t> next = first_place_;
  for (std::uint32_t i = 0; i < places_.size(); ++i) places_[next[static_cast<std::size_t>(lexicon.word_at(i))]++] = i;
}

LookAhead::~LookAhead() {
  for (const auto& table : sorted_) delete[] table.load(std::memory_order_relaxed);
}

// The range in `places_` of the word that ends `bigram`.
std::pair<std::uint32_t, std::uint32_t> LookAhead::places_of(std::uint32_t bigram) const noexcept {
  const auto word = static_cast<std::size_t>(lm_.bigram_word(bigram));
  return {first_place_[word], std::min(first_place_[word + 1], first_place_[word] + kMaxPlaces)};
}

std::unique_ptr<std::uint32_t[]> LookAhead::sort(std::int32_t word) const {
  const auto [begin, end] = lm_.bigrams(word);
  std::size_t size = 0;
  for (std::uint32_t k = begin; k < end; ++k) {
    const auto [first, last] = places_of(k);
    size += last - first;
  }
  auto table = std::make_unique<std::uint32_t[]>(1 + size + (size + 3) / 4);
  table[0] = static_cast<std::uint32_t>(size);
  std::uint32_t* places = table.get() + 1;
  auto* codes = reinterpret_cast<std::uint8_t*>(places + size);
  const auto collect = [&, begin = begin, end = end](auto use) {
    for (std::uint32_t k = begin; k < end; ++k) {
      const auto [first, last] = places_of(k);
      for (std::uint32_t i = first; i < last; ++i) use(places_[i], lm_.bigram_log_probs().codes[k]);
    }
  };
  if (size > places_.size() / 64) {  // a tenth of the time of sorting the continuations of the most common words
    std::vector<std::uint16_t> by_place(places_.size());  // 1 + code; 0 for none
    collect([&](std::uint32_t place, std::uint8_t code) { by_place[place] = static_cast<std::uint16_t>(1 + code); });
    for (std::uint32_t place = 0; place < by_place.size(); ++place) {
      if (by_place[place] == 0) continue;
      *places++ = place;
      *codes++ = static_cast<std::uint8_t>(by_place[place] - 1);
    }
  } else {
    std::vector<std::pair<std::uint32_t, std::uint8_t>> pairs;
    pairs.reserve(size);
    collect([&](std::uint32_t place, std::uint8_t code) { pairs.emplace_back(place, code); });
    std::sort(pairs.begin(), pairs.end());
    for (const auto& [place, code] : pairs) {
      *places++ = place;
      *codes++ = code;
    }
  }
  return table;
}

LookAhead::Sorted LookAhead::sorted(std::int32_t word) const {
  std::atomic<const std::uint32_t*>& known = sorted_[static_cast<std::size_t>(word)];
  const std::uint32_t* table = known.load(std::memory_order_acquire);
  if (!table) {
    std::unique_ptr<std::uint32_t[]> made = sort(word);
    // Another thread may have been faster.
    if (known.compare_exchange_strong(table, made.get(), std::memory_order_acq_rel)) table = made.release();
  }
  return {table[0], table + 1, reinterpret_cast<const std::uint8_t*>(table + 1 + table[0])};
}

LookAhead::Continuations LookAhead::begin(std::int32_t word, std::int32_t child, Cache& cache) const {
  return cache.get(word, child, [&] {
    const auto [begin, end] = lm_.bigrams(word);
    if (begin == end) return Continuations{};
    const Sorted continuations = sorted(word);
    return find(continuations, {0, continuations.size}, Lexicon::kRoot, child);
  });
}

LookAhead::Continuations LookAhead::narrow(std::int32_t word, Range range, std::int32_t parent, std::int32_t child,
                                           Cache& cache) const {
  if (range.begin == range.end) return {};
  return cache.get(word, child, [&] { return find(sorted(word), range, parent, child); });
}

LookAhead::Continuations LookAhead::find(const Sorted& continuations, Range range, std::int32_t parent,
                                         std::int32_t child) const noexcept {
  const std::uint32_t* const places = continuations.places;
  const std::uint8_t* const codes = continuations.codes;
  const std::size_t begin = lower_bound(places, range.begin, range.end, lexicon_.first_place(child));
  const bool is_last = child + 1 == lexicon_.first_child(parent) + lexicon_.num_children(parent);
  const std::size_t end = is_last ? range.end : lower_bound(places, begin, range.end, lexicon_.first_place(child + 1));
  if (begin == end) return {};
  // Compares sixteen bytes at a time, because common words have thousands of continuations.
  constexpr std::size_t kLanes = 16;
  std::uint8_t best[kLanes] = {};
  std::size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) best[lane] = std::max(best[lane], codes[i + lane]);
  }
  for (; i < end; ++i) best[0] = std::max(best[0], codes[i]);
  const NgramLm::Quantized& table = lm_.bigram_log_probs();
  return {{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)},
          table.low + table.step * static_cast<float>(*std::max_element(best, best + kLanes))};
}

}  // namespace asr_stream
