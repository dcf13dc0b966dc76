#include "search/posteriors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace asr_stream {

namespace {

// Scales scores down: CTC treats frames as independent, so scores differ more than the true log-probabilities.
constexpr double kScale = 0.3;

// Adds `weight` to each word of `words` that is also in `other`, in an alignment with the fewest errors.
void add_matches(const std::vector<std::int32_t>& words, const std::vector<std::int32_t>& other, float weight,
                 std::vector<float>& sums) {
  const std::size_t width = other.size() + 1;
  std::vector<std::int32_t> errors((words.size() + 1) * width);  // edit distance of the remaining words
  const auto at = [&](std::size_t i, std::size_t j) -> std::int32_t& { return errors[i * width + j]; };
  for (std::size_t i = words.size() + 1; i-- > 0;) {
    for (std::size_t j = width; j-- > 0;) {
      if (i == words.size() || j == other.size()) {
        at(i, j) = static_cast<std::int32_t>(words.size() - i + other.size() - j);
      } else {
        at(i, j) = std::min({at(i + 1, j + 1) + (words[i] != other[j]), at(i + 1, j) + 1, at(i, j + 1) + 1});
      }
    }
  }
  for (std::size_t i = 0, j = 0; i < words.size() && j < other.size();) {
    if (at(i, j) == at(i + 1, j + 1) + (words[i] != other[j])) {
      if (words[i] == other[j]) sums[i] += weight;
      ++i, ++j;
    } else if (at(i, j) == at(i + 1, j) + 1) {
      ++i;
    } else {
      ++j;
    }
  }
}

}  // namespace

void set_posteriors(std::vector<Hypothesis>& sentences, std::size_t count) {
  double highest = sentences.front().score(), total = 0.0;
  for (const Hypothesis& sentence : sentences) highest = std::max(highest, sentence.score());
  for (Hypothesis& sentence : sentences) total += std::exp(kScale * (sentence.score() - highest));
  for (Hypothesis& sentence : sentences) {
    sentence.posterior = static_cast<float>(std::exp(kScale * (sentence.score() - highest)) / total);
  }
  for (std::size_t i = 0; i < std::min(count, sentences.size()); ++i) {
    Hypothesis& sentence = sentences[i];
    sentence.word_posteriors.assign(sentence.words.size(), 0.0f);
    for (const Hypothesis& other : sentences) {
      add_matches(sentence.words, other.words, other.posterior, sentence.word_posteriors);
    }
  }
}

}  // namespace asr_stream
