// Streaming resampling to 16 kHz: a sinc with a Kaiser window, evaluated exactly at the output samples.
//
// - Passes up to 0.92 of the lower Nyquist frequency; aliases and images are 100 dB down.
// - Output sample n is at n / 16000 s of the input: there is no delay, only a wait of 80 samples of the lower rate.
//   Positions are integers in units of 1 / (sample rate * 16000) s, so hours of audio cannot drift.
// - The output is bit-identical for any split of the input into pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace asr_stream {

// Throws std::invalid_argument unless a rate, in Hz, is in [kMinSampleRate, kMaxSampleRate].
void check_sample_rate(std::int64_t sample_rate);

// For one thread at a time.
class Resampler {
 public:
  explicit Resampler(std::int32_t sample_rate);  // of the input, in Hz; std::invalid_argument

  // Continues with `samples`, see `to_floats` of frontend/fbank.h, and appends finished output to `output`.
  template <typename Sample>  // float or std::int16_t
  void accept(const Sample* samples, std::size_t count, std::vector<float>& output);

  // Ends the input: appends the rest, as if silence followed. No input may follow. There are then as many output
  // samples as input samples times 16000 / sample rate, rounded, or `num_total`, which may differ by one because of a
  // clock.
  void finish(std::vector<float>& output) { finish((2 * num_samples_ * up_ + down_) / (2 * down_), output); }
  void finish(std::int64_t num_total, std::vector<float>& output);

  std::int64_t num_nonfinite() const noexcept { return num_nonfinite_; }
  std::int64_t reach() const noexcept { return reach_; }  // input samples on either side that an output depends on

 private:
  void make_filters(double ratio);
  void produce(std::int64_t num_total, std::vector<float>& output);

  std::int64_t up_, down_;  // the output's rate over the input's, in lowest terms
  std::int64_t reach_;
  std::int64_t num_rows_;       // of filters, at distances 0, 1 / num_rows_, ... of an input sample
  bool exact_;                  // a row for each of the `up_` positions; otherwise it is interpolated between rows
  std::vector<float> filters_;  // (num_rows_, 2 * reach_); one row more for interpolation

  std::vector<float> held_;       // input that is still needed
  std::int64_t held_begin_;       // position of its first sample
  std::int64_t center_ = 0;       // position of the next output: center_ + phase_ / up_ input samples
  std::int64_t phase_ = 0;
  std::int64_t num_outputs_ = 0;
  std::int64_t num_samples_ = 0;
  std::int64_t num_nonfinite_ = 0;
};

}  // namespace asr_stream
