#include "frontend/mel_filters.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "frontend/simd.h"

namespace asr_stream {

double mel_of(double freq) { return 1127.0 * std::log(1.0 + freq / 700.0); }

namespace {

// Natural logarithm of positive normal floats with an error of about 1 ulp, in plain arithmetic. Unlike the system's
// math library, it can be vectorized and gives the same bits on every machine. x = 2^e * m with m in [sqrt(1/2),
// sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
ASR_STREAM_MULTIVERSION
void log_in_place(float* ASR_STREAM_RESTRICT x, int count) {
  constexpr std::int32_t kSqrtHalfBits = 0x3f3504f3;
  constexpr float kLn2 = 0.693147180559945f;
  for (int i = 0; i < count; ++i) {
    std::int32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const std::int32_t exponent = (bits - kSqrtHalfBits) >> 23;
    const std::int32_t mantissa_bits = bits - exponent * (std::int32_t{1} << 23);
    float m;
    std::memcpy(&m, &mantissa_bits, sizeof m);
    const float s = (m - 1.0f) / (m + 1.0f);
    const float s2 = s * s;
    const float series = s2 * (0.333333333f + s2 * (0.2f + s2 * (0.142857143f + s2 * 0.111111111f)));
    x[i] = static_cast<float>(exponent) * kLn2 + (2.0f * s + 2.0f * s * series);
  }
}

}  // namespace

MelFilters::MelFilters(int num_bins, double low_freq, double high_freq, int sample_rate, int fft_size) {
  // Weights are computed in float and in torchaudio's order: near the edge of a narrow filter, the rounding of the mel
  // scale is visible in the features.
  const double low_mel = mel_of(low_freq);
  const double delta = (mel_of(high_freq) - low_mel) / (num_bins + 1);
  const double bin_width = static_cast<double>(sample_rate) / fft_size;
  const int num_fft_bins = fft_size / 2;
  std::vector<float> mel(static_cast<std::size_t>(num_fft_bins));
  for (int k = 0; k < num_fft_bins; ++k) {
    const float ratio = 1.0f + static_cast<float>(bin_width) * static_cast<float>(k) / 700.0f;
    mel[static_cast<std::size_t>(k)] = 1127.0f * static_cast<float>(std::log(static_cast<double>(ratio)));
  }
  const auto edge = [&](int b) {
    return static_cast<float>(low_mel) + static_cast<float>(b) * static_cast<float>(delta);
  };
  for (int b = 0; b < num_bins; ++b) {
    const float left = edge(b), center = edge(b + 1), right = edge(b + 2);
    Filter filter{0, 0, static_cast<int>(weights_.size())};
    for (int k = 0; k < num_fft_bins; ++k) {
      const float m = mel[static_cast<std::size_t>(k)];
      const float weight = std::min((m - left) / (center - left), (right - m) / (right - center));
      if (weight <= 0.0f) continue;
      if (filter.count == 0) filter.first = k;
      weights_.push_back(weight);
      ++filter.count;
    }
    while (filter.count % kLanes != 0) {
      weights_.push_back(0.0f);
      ++filter.count;
    }
    filters_.push_back(filter);
  }
}

void MelFilters::log_mel(const float* power, float* log_mel) const {
  constexpr float kFloor = std::numeric_limits<float>::epsilon();
  float* out = log_mel;
  for (const Filter& filter : filters_) {
    const float* p = power + filter.first;
    const float* w = weights_.data() + filter.weights;
    float lanes[kLanes] = {};
    for (int i = 0; i < filter.count; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += p[i + lane] * w[i + lane];
    }
    *out++ = std::max(kFloor, (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]));
  }
  log_in_place(log_mel, static_cast<int>(filters_.size()));
}

}  // namespace asr_stream
