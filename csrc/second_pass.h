// The second pass: an utterance is encoded again with more context, in several views of its features.
//
// The views are the features as they are, of a vocal tract that is 4 % longer (VTLP; Jaitly and Hinton 2013), and of
// frames that begin 20 ms earlier. The views make different errors, so that the geometric mean of their probabilities
// and of those of the first pass makes fewer errors than any of them (docs/lab/ablations.md).
//
// A view is encoded in windows, each with a cache of the windows before. A window does not wait for the end of the
// utterance: that bounds the work, and so the delay of the final, which is left then.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "encoder_step.h"
#include "frontend/fbank.h"
#include "log_prob_sums.h"

namespace asr_stream {

struct HeadLogProbs {
  std::vector<float> letters, phones;  // (tokens,) and (phone tokens,) of a frame; no phones where none are searched
};

// Of one utterance. Frames are encoder frames, and count from its first one.
class SecondPass {
 public:
  // first_frame: of the utterance in the stream. window: frames that a run encodes at most.
  SecondPass(std::int64_t first_frame, std::int64_t window) : first_frame_(first_frame), window_(window) {}

  // The next frame in the first pass. phones: null where they are not searched.
  void append(const float* letters, std::int64_t num_letters, const float* phones, std::int64_t num_phones);

  // More than a window waits.
  bool is_due() const noexcept { return num_frames_ - num_done_ > window_; }
  bool has_begun() const noexcept { return num_done_ > 0 || view_ > 0; }
  // The next run of the encoder; none: all views have the frames so far, but for less than a window unless the
  // utterance is over. num_context: frames before the utterance that the first window of the first view has as context;
  // the other views do without, which saves time.
  std::optional<EncoderStep> next(const Fbank& fbank, std::int64_t num_context, bool is_over);
  // Adds the result of the run, of which `num_valid` frames count. Returns how many of these are before the utterance.
  std::int64_t add(const Rows& letters, const Rows& phones, std::int64_t num_valid);

  std::int64_t num_done() const noexcept { return num_done_; }  // frames that all views have
  // The mean of all passes, of one of these frames.
  HeadLogProbs mean_of(std::int64_t frame) const;

  std::int64_t num_bytes() const noexcept { return letters_.num_bytes() + phones_.num_bytes(); }

 private:
  std::int64_t first_frame_, window_;
  std::int64_t num_frames_ = 0;
  std::int64_t num_done_ = 0;  // where the window begins that is under way
  std::size_t view_ = 0;       // of its next run
  std::int64_t window_end_ = 0, num_context_ = 0;  // of the run under way
  LogProbSums letters_, phones_;
};

}  // namespace asr_stream
