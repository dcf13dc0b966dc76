#include "search/ctc_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace asr_stream {

namespace {

// The log_softmax of a model in half precision or after quantization may return values slightly above 0.
constexpr float kMaxLogProb = 0.01f;

}  // namespace

void TokenSpan::append_to(Hypothesis& hypothesis) const {
  hypothesis.start_frames.push_back(start);
  hypothesis.end_frames.push_back(end);
  const double mean = std::exp(log_prob / static_cast<double>(end - start));
  hypothesis.confidences.push_back(
      std::clamp(static_cast<float>(mean), std::numeric_limits<float>::min(), 1.0f));
}

void LogProbChecker::check(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size) {
  if (vocab_size_ != 0 && vocab_size != vocab_size_) {
    throw std::invalid_argument("vocab_size is " + std::to_string(vocab_size) + ", but earlier chunks had " +
                                std::to_string(vocab_size_));
  }
  if (vocab_size < 2 || vocab_size > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument("vocab_size must be at least 2 (blank and a token), got " +
                                std::to_string(vocab_size));
  }
  for (std::int64_t t = 0; t < num_frames; ++t) {
    const float* row = log_probs + t * vocab_size;
    float highest = -std::numeric_limits<float>::infinity();
    bool valid = true;
    for (std::int64_t v = 0; v < vocab_size; ++v) {
      valid &= row[v] <= kMaxLogProb;  // false for NaN
      highest = std::max(highest, row[v]);
    }
    if (!valid || !std::isfinite(highest)) {
      throw std::invalid_argument("log_probs of frame " + std::to_string(t) +
                                  " are not log-probabilities: need values <= 0, no NaN, and one that is finite; "
                                  "apply log_softmax to logits");
    }
  }
  vocab_size_ = vocab_size;
}

}  // namespace asr_stream
