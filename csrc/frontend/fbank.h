// Streaming Kaldi-compatible log-mel filterbank.
//
// Definition: torchaudio.compliance.kaldi.fbank with 25 ms frames every 10 ms, povey window, pre-emphasis 0.97, the
// mean of each frame removed, snip_edges=False, dither 0, power spectrum, no energy, and the natural logarithm with
// float epsilon as floor. Samples are in [-1, 1]. A frame depends only on its own samples, so features are
// bit-identical for any split of the audio into pushes.
//
// Frame i covers samples [i * shift - pad, i * shift - pad + window), pad = window/2 - shift/2. Samples outside the
// audio are reflected at its edges, repeatedly if it is very short (as in Kaldi; torchaudio rejects audio shorter than
// a window). There are (num_samples + shift/2) / shift frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "contract.h"
#include "frontend/mel_filters.h"
#include "frontend/real_fft.h"

namespace asr_stream {

// Converts samples to floats; int16 is scaled by 1/32768. Values that are not finite or exceed Fbank::kMaxMagnitude
// become 0. Returns the number of such values.
int to_floats(const float* samples, std::size_t count, float* out);
int to_floats(const std::int16_t* samples, std::size_t count, float* out);

// Not thread-safe. Throws std::invalid_argument for invalid input.
class Fbank {
 public:
  // Larger magnitudes count as non-finite because their squares would overflow.
  static constexpr float kMaxMagnitude = 1e9f;

  // `num_silent`: starts as if after this many samples of digital silence, whose frames are not kept. Only for tests of
  // positions that would take days to reach.
  explicit Fbank(std::int64_t num_silent = 0);

  // Any number of samples, including 0; see `to_floats`. Throws after input_finished.
  template <typename Sample>  // float or std::int16_t
  void accept_waveform(const Sample* samples, std::size_t count);

  // Ends the audio and computes the last frames, whose windows extend beyond the end. Further calls do nothing.
  void input_finished();

  // Frames computed since the start; the valid frames are [first_frame, num_frames_ready).
  std::int64_t num_frames_ready() const noexcept { return num_frames_; }
  std::int64_t first_frame() const noexcept { return first_frame_; }

  // Copies `count` frames of kNumBins floats to `out`. Throws outside of the valid frames.
  void get_frames(std::int64_t start, std::int64_t count, float* out) const;
  void check_range(std::int64_t start, std::int64_t count) const;

  // Frees the frames before `before`. Throws if `before` is beyond num_frames_ready or negative.
  void discard_frames(std::int64_t before);

  std::int64_t num_samples() const noexcept { return num_samples_; }
  std::int64_t num_nonfinite_samples() const noexcept { return num_nonfinite_; }

 private:
  void compute_ready_frames();
  void compute_edge_frame();
  void compute_frame(const float* samples);
  static std::int64_t frame_start(std::int64_t frame) noexcept { return frame * kFrameShift - kPad; }

  static constexpr std::int64_t kPad = (kFrameLength - kFrameShift) / 2;  // samples
  RealFft fft_;
  MelFilters mel_filters_;
  std::vector<double> window_;
  std::vector<double> frame_;  // zero after kFrameLength
  std::vector<float> power_;

  std::vector<float> samples_;      // [samples_begin_, num_samples_) of the stream
  std::int64_t samples_begin_ = 0;  // a sample position
  std::int64_t num_samples_ = 0;
  std::int64_t num_nonfinite_ = 0;
  bool finished_ = false;

  std::vector<float> features_;  // frames [features_begin_, num_frames_)
  std::int64_t features_begin_ = 0;
  std::int64_t first_frame_ = 0;
  std::int64_t num_frames_ = 0;
};

}  // namespace asr_stream
