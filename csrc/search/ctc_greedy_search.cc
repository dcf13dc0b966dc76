#include "search/ctc_greedy_search.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace asr_stream {

void CtcGreedySearch::advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size) {
  checker_.check(log_probs, num_frames, vocab_size);
  for (std::int64_t t = 0; t < num_frames; ++t) {
    const float* row = log_probs + t * vocab_size;
    const auto token = static_cast<std::int32_t>(std::max_element(row, row + vocab_size) - row);
    const double log_prob = row[token];
    log_prob_ += log_prob;
    if (token != kBlankId) {
      if (token == previous_) {
        spans_.back().end = num_frames_ + 1;
        spans_.back().log_prob += log_prob;
      } else {
        tokens_.push_back(token);
        spans_.push_back({num_frames_, num_frames_ + 1, log_prob});
      }
    }
    previous_ = token;
    ++num_frames_;
  }
}

std::vector<Hypothesis> CtcGreedySearch::hypotheses(std::int64_t num_best, bool) const {
  if (num_best < 1) throw std::invalid_argument("num_best must be at least 1, got " + std::to_string(num_best));
  Hypothesis hypothesis;
  hypothesis.tokens = tokens_;
  hypothesis.log_prob = log_prob_;
  for (const TokenSpan& span : spans_) span.append_to(hypothesis);
  return {hypothesis};
}

void CtcGreedySearch::reset() {
  utterance_start_ = num_frames_;
  previous_ = -1;
  log_prob_ = 0.0;
  tokens_.clear();
  spans_.clear();
}

std::int64_t CtcGreedySearch::num_trailing_blanks() const noexcept {
  return num_frames_ - (spans_.empty() ? utterance_start_ : spans_.back().end);
}

}  // namespace asr_stream
