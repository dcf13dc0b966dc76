// Streaming resampling to 16 kHz: a sinc with a Kaiser window, evaluated exactly at the output samples.
//
// - The pass band reaches to 0.92 of the lower Nyquist frequency; aliases and images are attenuated by 100 dB.
// - Output sample n is at n / 16000 s of the input. There is no delay; computing a sample needs 80 future samples at
//   the lower rate. Positions are integers in units of 1 / (sample rate * 16000) s, so there is no drift over hours.
// - The output is bit-identical for any split of the input into calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace asr_stream {

// Throws std::invalid_argument unless the rate in Hz is in [kMinSampleRate, kMaxSampleRate].
void check_sample_rate(std::int64_t sample_rate);

// Not thread-safe.
class Resampler {
 public:
  explicit Resampler(std::int32_t sample_rate);  // of the input, in Hz; throws std::invalid_argument

  // Adds `samples`, see `to_floats` in frontend/fbank.h, and appends finished output to `output`.
  template <typename Sample>  // float or std::int16_t
  void accept(const Sample* samples, std::size_t count, std::vector<float>& output);

  // Ends the input and appends the rest, as if silence followed. The next input begins anew. The total number of output
  // samples is input samples * 16000 / sample rate, rounded; or `num_total`, which may differ by one due to a clock.
  void finish(std::vector<float>& output) { finish((2 * num_samples_ * up_ + down_) / (2 * down_), output); }
  void finish(std::int64_t num_total, std::vector<float>& output);

  std::int32_t sample_rate() const noexcept { return sample_rate_; }
  bool has_begun() const noexcept { return num_samples_ > 0; }
  std::int64_t num_nonfinite() const noexcept { return num_nonfinite_; }  // in all inputs
  std::int64_t reach() const noexcept { return reach_; }  // input samples before and after an output that it depends on

 private:
  void begin();
  void make_filters(double ratio);
  void produce(std::int64_t num_total, std::vector<float>& output);

  std::int32_t sample_rate_;
  std::int64_t up_, down_;  // output rate / input rate, in lowest terms
  std::int64_t reach_;
  std::int64_t num_rows_;       // filters at distances 0, 1 / num_rows_, ... from an input sample
  bool exact_;                  // one row per position (`up_`); otherwise rows are interpolated
  std::vector<float> filters_;  // (num_rows_, 2 * reach_); plus one row for interpolation

  std::vector<float> held_;       // input that is still needed
  std::int64_t held_begin_;       // position of its first sample
  std::int64_t center_;           // position of the next output: center_ + phase_ / up_ input samples
  std::int64_t phase_;
  std::int64_t num_outputs_;
  std::int64_t num_samples_;
  std::int64_t num_nonfinite_ = 0;
};

}  // namespace asr_stream
