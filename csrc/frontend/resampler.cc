#include "frontend/resampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "contract.h"
#include "frontend/fbank.h"
#include "frontend/simd.h"

namespace asr_stream {

namespace {

constexpr std::int64_t kHalfWidth = 80;  // half width of the filter, in samples at the lower rate
constexpr double kCutoff = 0.96;         // relative to the lower Nyquist frequency, mid-transition
constexpr double kKaiserBeta = 10.06;    // stop band at -100 dB; transition of 0.08 with this width
constexpr std::int64_t kMaxTable = 1 << 18;   // in floats; larger tables, of odd ratios, are interpolated
constexpr std::int64_t kResolution = 512;     // rows of these per sample at the lower rate; error -106 dB
constexpr std::size_t kLanes = 16;            // parallel sums, so that the order is fixed on every machine
constexpr std::size_t kPiece = 1 << 14;       // input samples per step; limits memory

// I0, the modified Bessel function of order 0, by its series.
double bessel(double x) {
  double sum = 1.0, term = 1.0;
  for (double k = 1.0; term > 1e-10 * sum; k += 1.0) {
    term *= x * x / (4.0 * k * k);
    sum += term;
  }
  return sum;
}

// The filter at a distance, which is in samples at the lower rate.
double filter_at(double x) {
  const double inside = 1.0 - (x / kHalfWidth) * (x / kHalfWidth);
  if (inside <= 0.0) return 0.0;
  constexpr double kPi = 3.14159265358979323846;
  const double angle = kPi * kCutoff * x;
  return (angle == 0.0 ? 1.0 : std::sin(angle) / angle) * bessel(kKaiserBeta * std::sqrt(inside));
}

ASR_STREAM_MULTIVERSION
float dot(const float* ASR_STREAM_RESTRICT a, const float* ASR_STREAM_RESTRICT b, std::size_t count) {
  float sums[kLanes] = {};
  for (std::size_t i = 0; i < count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t half = kLanes / 2; half; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

}  // namespace

void check_sample_rate(std::int64_t sample_rate) {
  if (sample_rate >= kMinSampleRate && sample_rate <= kMaxSampleRate) return;
  throw std::invalid_argument("sample_rate is " + std::to_string(sample_rate) +
                              "; it must be a whole number of Hz in [" + std::to_string(kMinSampleRate) + ", " +
                              std::to_string(kMaxSampleRate) + "]");
}

Resampler::Resampler(std::int32_t sample_rate) : sample_rate_(sample_rate) {
  check_sample_rate(sample_rate);
  const std::int64_t divisor = std::gcd(kSampleRate, sample_rate);
  up_ = kSampleRate / divisor;
  down_ = sample_rate / divisor;
  const double ratio = std::max(1.0, static_cast<double>(down_) / static_cast<double>(up_));
  const auto half_lanes = static_cast<std::int64_t>(kLanes / 2);
  reach_ = static_cast<std::int64_t>(std::ceil(kHalfWidth * ratio / static_cast<double>(half_lanes))) * half_lanes;
  exact_ = up_ * 2 * reach_ <= kMaxTable;
  num_rows_ = exact_ ? up_ : static_cast<std::int64_t>(std::ceil(kResolution / ratio));
  make_filters(ratio);
  begin();
}

void Resampler::begin() {
  held_begin_ = 1 - reach_;
  held_.assign(static_cast<std::size_t>(reach_ - 1), 0.0f);
  center_ = phase_ = num_outputs_ = num_samples_ = 0;
}

void Resampler::make_filters(double ratio) {
  const auto width = static_cast<std::size_t>(2 * reach_);
  filters_.resize(static_cast<std::size_t>(num_rows_ + (exact_ ? 0 : 1)) * width);
  std::vector<double> row(width);
  for (std::size_t r = 0; r < filters_.size() / width; ++r) {
    const double offset = static_cast<double>(reach_ - 1) + static_cast<double>(r) / static_cast<double>(num_rows_);
    for (std::size_t k = 0; k < width; ++k) row[k] = filter_at((static_cast<double>(k) - offset) / ratio);
    // Each row is normalized, so that constant input gives constant output.
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (std::size_t k = 0; k < width; ++k) filters_[r * width + k] = static_cast<float>(row[k] / sum);
  }
}

template <typename Sample>
void Resampler::accept(const Sample* samples, std::size_t count, std::vector<float>& output) {
  while (count) {
    const std::size_t piece = std::min(count, kPiece), held = held_.size();
    held_.resize(held + piece);
    num_nonfinite_ += to_floats(samples, piece, held_.data() + held);
    samples += piece;
    count -= piece;
    num_samples_ += static_cast<std::int64_t>(piece);
    produce(std::numeric_limits<std::int64_t>::max(), output);
  }
}

template void Resampler::accept(const float* samples, std::size_t count, std::vector<float>& output);
template void Resampler::accept(const std::int16_t* samples, std::size_t count, std::vector<float>& output);

void Resampler::finish(std::int64_t num_total, std::vector<float>& output) {
  // `num_total`, which comes from a rounded clock, may need one sample beyond the end of the input.
  held_.insert(held_.end(), static_cast<std::size_t>(reach_ + down_ / up_ + 1), 0.0f);
  produce(num_total, output);
  begin();
}

void Resampler::produce(std::int64_t num_total, std::vector<float>& output) {
  const std::int64_t end = held_begin_ + static_cast<std::int64_t>(held_.size());
  const auto width = static_cast<std::size_t>(2 * reach_);
  while (center_ + reach_ < end && num_outputs_ < num_total) {
    const float* input = held_.data() + (center_ - reach_ + 1 - held_begin_);
    const std::int64_t place = phase_ * num_rows_;  // in 1 / up_ rows
    const float* row = filters_.data() + static_cast<std::size_t>(place / up_) * width;
    float value = dot(row, input, width);
    if (!exact_) {
      const float weight = static_cast<float>(place % up_) / static_cast<float>(up_);
      value += weight * (dot(row + width, input, width) - value);
    }
    output.push_back(value);
    ++num_outputs_;
    phase_ += down_;
    center_ += phase_ / up_;
    phase_ %= up_;
  }
  const std::int64_t unused = std::min(center_ - reach_ + 1, end) - held_begin_;
  held_.erase(held_.begin(), held_.begin() + unused);
  held_begin_ += unused;
}

}  // namespace asr_stream
