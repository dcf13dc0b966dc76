#include "search/look_ahead.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "search/ngram_lm.h"

namespace asr_stream {

LookAhead::LookAhead(const NgramLm& lm, const Lexicon& lexicon) : lm_(lm), lexicon_(lexicon) {
  const std::size_t num_words = lm.num_words();
  // The positions of each word in the lexicon.
  std::vector<std::uint32_t> first_place(num_words + 1, 0), places(lexicon.num_places());
  for (std::uint32_t i = 0; i < places.size(); ++i) ++first_place[static_cast<std::size_t>(lexicon.word_at(i)) + 1];
  for (std::size_t word = 0; word < num_words; ++word) first_place[word + 1] += first_place[word];
  std::vector<std::uint32_t> next = first_place;
  for (std::uint32_t i = 0; i < places.size(); ++i) places[next[static_cast<std::size_t>(lexicon.word_at(i))]++] = i;

  const auto places_of = [&](std::uint32_t bigram) {
    const auto word = static_cast<std::size_t>(lm.bigram_word(bigram));
    return std::pair(first_place[word], std::min(first_place[word + 1], first_place[word] + kMaxPlaces));
  };
  std::size_t count = 0;
  for (std::uint32_t k = 0; k < lm.num_ngrams(2); ++k) {
    const auto [first, last] = places_of(k);
    count += last - first;
  }
  if (count > 0x7fffffff) throw std::invalid_argument("the language model has too many bigrams");
  ranges_.reserve(num_words);
  places_ = PackedNumbers(static_cast<std::uint32_t>(lexicon.num_places()), count);
  codes_.reserve(count);
  std::vector<std::pair<std::uint32_t, std::uint8_t>> sorted;
  for (std::size_t context = 0; context < num_words; ++context) {
    sorted.clear();
    const auto [begin, end] = lm.bigrams(static_cast<std::int32_t>(context));
    for (std::uint32_t k = begin; k < end; ++k) {
      const auto [first, last] = places_of(k);
      for (std::uint32_t i = first; i < last; ++i) sorted.emplace_back(places[i], lm.bigram_log_probs().codes[k]);
    }
    std::sort(sorted.begin(), sorted.end());
    ranges_.push_back(static_cast<std::uint32_t>(sorted.size()));
    for (const auto& [place, code] : sorted) {
      places_.push_back(place);
      codes_.push_back(code);
    }
  }
}

LookAhead::Continuations LookAhead::begin(std::int32_t word, std::int32_t child, Cache& cache) const {
  return cache.get(word, child, [&] {
    const auto [begin, end] = ranges_[static_cast<std::size_t>(word)];
    return find({begin, end}, Lexicon::kRoot, child);
  });
}

LookAhead::Continuations LookAhead::narrow(std::int32_t word, Range range, std::int32_t parent, std::int32_t child,
                                           Cache& cache) const {
  if (range.begin == range.end) return {};
  return cache.get(word, child, [&] { return find(range, parent, child); });
}

LookAhead::Continuations LookAhead::find(Range range, std::int32_t parent, std::int32_t child) const noexcept {
  const std::size_t begin = places_.lower_bound(range.begin, range.end, lexicon_.first_place(child));
  const bool is_last = child + 1 == lexicon_.first_child(parent) + lexicon_.num_children(parent);
  const std::size_t end = is_last ? range.end : places_.lower_bound(begin, range.end, lexicon_.first_place(child + 1));
  if (begin == end) return {};
  // Compares sixteen bytes at a time, because common words have thousands of continuations.
  constexpr std::size_t kLanes = 16;
  std::uint8_t best[kLanes] = {};
  std::size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) best[lane] = std::max(best[lane], codes_[i + lane]);
  }
  for (; i < end; ++i) best[0] = std::max(best[0], codes_[i]);
  const NgramLm::Quantized& table = lm_.bigram_log_probs();
  return {{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)},
          table.low + table.step * static_cast<float>(*std::max_element(best, best + kLanes))};
}

}  // namespace asr_stream
