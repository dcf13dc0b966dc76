// The second pass: an utterance that has ended is encoded again with full context, in several views of its features.
//
// The views are the features as they are, of a vocal tract that is 4 % longer (VTLP; Jaitly and Hinton 2013), and of
// frames that begin 20 ms earlier. The network errs in each of them elsewhere, so that the geometric mean of their
// probabilities and of those of the first pass makes fewer errors than any of them (docs/lab/ablations.md).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "encoder_step.h"
#include "frontend/fbank.h"
#include "log_prob_sums.h"

namespace asr_stream {

// Of the network's heads. The phones are empty where they are not searched.
struct HeadSums {
  LogProbSums letters, phones;
};
struct HeadLogProbs {
  std::vector<float> letters, phones;  // (tokens,) and (phone tokens,) of a frame
};

class SecondPass {
 public:
  // first_frame: of the utterance, in encoder frames of the stream. The first view has num_context frames before it as
  // context; the others do without, which saves time. Windows have up to max_window frames. first_pass: of the
  // utterance.
  SecondPass(std::int64_t first_frame, std::int64_t num_context, std::int64_t num_frames, std::int64_t max_window,
             HeadSums first_pass);

  // The next run of the encoder; none: it is over.
  std::optional<EncoderStep> next(const Fbank& fbank);
  // Adds the result of the run, of which `num_valid` frames count. Returns how many of these are before the utterance.
  std::int64_t add(const Rows& letters, const Rows& phones, std::int64_t num_valid);
  // Whether the last run was of the features as they are.
  bool is_plain() const noexcept { return view_ == 0; }
  // When it is over: the mean, of a frame of the utterance.
  HeadLogProbs mean_of(std::int64_t frame) const;

 private:
  std::int64_t first_frame_, num_context_, num_frames_, max_window_;  // num_context_: of the view under way
  std::size_t view_ = 0;
  std::int64_t window_start_ = 0, window_end_ = 0;  // encoder frames from first_frame_ - num_context_
  HeadSums sums_;
};

}  // namespace asr_stream
