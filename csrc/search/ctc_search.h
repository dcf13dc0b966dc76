// Types shared by the CTC searches: hypotheses, and checks of the input.
//
// A search receives log-probabilities in chunks and processes them frame by frame, so its result does not depend on the
// chunking. Frames are encoder frames, counted from the start of the stream; `reset` begins a new utterance but does
// not reset this count.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace asr_stream {

inline constexpr double kNever = -std::numeric_limits<double>::infinity();  // the log-probability of the impossible

// Token i occupies frames [start_frames[i], end_frames[i]) of the best alignment. Its confidence, in (0, 1], is the
// geometric mean of its posteriors over these frames.
struct Hypothesis {
  std::vector<std::int32_t> tokens;
  double log_prob = 0.0;  // since the start of the utterance
  double lm_score = 0.0;  // the language model's share of the score, in nats; 0 without one
  double hotword_score = 0.0;  // the hotwords' share, in nats
  double score() const noexcept { return log_prob + lm_score + hotword_score; }  // ranks hypotheses
  std::vector<std::int64_t> start_frames;
  std::vector<std::int64_t> end_frames;
  std::vector<float> confidences;
  // In a search over phones, and in finals, the id of every word (see `WordIds`); kNoWord for an incomplete last word.
  std::vector<std::int32_t> words;
  // If several sentences are compared (set_posteriors): the probability of this one, and of each of its words.
  float posterior = 1.0f;
  std::vector<float> word_posteriors;
};

// The frames that one token occupies along an alignment.
struct TokenSpan {
  std::int64_t start;
  std::int64_t end;
  double log_prob;  // sum over the frames

  void append_to(Hypothesis& hypothesis) const;
};

// log(exp(a) + exp(b)), for values below infinity.
inline double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return std::isinf(b) ? a : a + std::log1p(std::exp(b - a));
}

// Checks the rows given to `advance`. Each row needs a finite value. NaN, +infinity and positive values (logits instead
// of log-probabilities) are rejected with std::invalid_argument. -infinity is a valid log-probability.
class LogProbChecker {
 public:
  // If this throws, no part of the chunk is used. The first chunk sets the vocabulary size.
  void check(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size);

 private:
  std::int64_t vocab_size_ = 0;
};

}  // namespace asr_stream
