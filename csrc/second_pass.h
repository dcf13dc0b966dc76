// The second pass: encodes an utterance again with more context, in several passes over its features.
//
// The passes read: the unchanged features; features of a 4 % longer vocal tract (VTLP; Jaitly and Hinton 2013); and
// frames that begin 20 ms earlier. The passes make different errors, so the geometric mean of their probabilities and
// those of the first pass makes fewer errors than any of them (docs/lab/tried.md).
//
// A pass encodes windows, each with a cache of the previous windows. A window is encoded before the utterance
// ends, which limits the work that is left at the end and so the delay of the final. Silence before the first word and
// after the last one is not encoded again, but for kMargin frames.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "frontend/fbank.h"
#include "log_prob_sums.h"
#include "work.h"

namespace asr_stream {

struct HeadLogProbs {
  std::vector<float> letters, phones;  // (tokens,) and (phone tokens,) of a frame; phones are empty unless searched
};

// For one utterance. Frames are encoder frames, counted from its beginning.
class SecondPass {
 public:
  // first_frame: position of the utterance in the stream. window: maximum number of frames per run.
  SecondPass(std::int64_t first_frame, std::int64_t window) : first_frame_(first_frame), window_(window) {}

  static constexpr std::int64_t kMargin = 15;  // 0.6 s

  // Adds the next frame of the first pass. phones: null if they are not searched. is_silent: blank is its likeliest
  // token.
  void append(const float* letters, std::int64_t num_letters, const float* phones, std::int64_t num_phones,
              bool is_silent);

  // Whether more than a window is waiting.
  bool is_due() const noexcept { return num_frames_ - (has_begun() ? num_done_ : begin_of_speech()) > window_; }
  bool has_begun() const noexcept { return window_end_ > 0; }
  // The next run of the encoder. Returns none once all passes are done for the frames so far, except for less
  // than a window before the utterance is over. num_context: frames before the utterance that the first window of the
  // first pass gets as context, which then begins with the utterance. The other passes get none, which saves time.
  std::optional<EncoderStep> next(const Fbank& fbank, std::int64_t num_context, bool is_over);
  // Adds the result of the run, in which `num_valid` frames are valid. Returns how many of these are before the
  // utterance.
  std::int64_t add(const Rows& letters, const Rows& phones, std::int64_t num_valid);

  std::int64_t num_done() const noexcept { return num_done_; }  // frames for which all passes are done or not needed
  // The mean for one of these frames over the passes that it has.
  HeadLogProbs mean_of(std::int64_t frame) const;

  std::int64_t num_bytes() const noexcept { return letters_.num_bytes() + phones_.num_bytes(); }

 private:
  std::int64_t begin_of_speech() const noexcept { return std::max<std::int64_t>(speech_begin_ - kMargin, 0); }
  std::int64_t end_of_speech() const noexcept {
    return speech_end_ ? std::min(speech_end_ + kMargin, num_frames_) : num_frames_;
  }

  std::int64_t first_frame_, window_;
  std::int64_t num_frames_ = 0;
  std::int64_t speech_begin_ = 0, speech_end_ = 0;  // 0 and 0 without speech: then all frames are encoded
  std::int64_t num_done_ = 0;  // start of the window in progress
  std::size_t pass_ = 0;       // of the next run
  std::int64_t encoded_begin_ = 0;                 // start of the first window
  std::int64_t window_end_ = 0, num_context_ = 0;  // of the run in progress, or of the last one
  LogProbSums letters_, phones_;
};

}  // namespace asr_stream
