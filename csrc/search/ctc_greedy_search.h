// Best-path CTC decoding: the most likely token of each frame, with repeats merged and blanks removed.
#pragma once

#include <cstdint>
#include <vector>

#include "contract.h"
#include "search/ctc_search.h"

namespace asr_stream {

// Not thread-safe. Throws std::invalid_argument for invalid input.
class CtcGreedySearch {
 public:
  // log_probs: (num_frames, vocab_size), row-major.
  void advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size);

  // Returns one hypothesis for any `num_best` >= 1, whether finished or not; its log_prob is that of the best path.
  std::vector<Hypothesis> hypotheses(std::int64_t num_best = 1, bool finished = false) const;

  void reset();

  std::int64_t num_frames() const noexcept { return num_frames_; }
  // Frames since the last token, or since the start of the utterance if there is none.
  std::int64_t num_trailing_blanks() const noexcept;

 private:
  LogProbChecker checker_;
  std::int64_t num_frames_ = 0;
  std::int64_t utterance_start_ = 0;
  std::int32_t previous_ = -1;  // best token of the previous frame of this utterance
  double log_prob_ = 0.0;
  std::vector<std::int32_t> tokens_;
  std::vector<TokenSpan> spans_;
};

}  // namespace asr_stream
