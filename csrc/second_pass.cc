#include "second_pass.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "contract.h"
#include "frontend/mel_filters.h"

namespace asr_stream {

namespace {

struct View {
  double warp;         // what was at the frequency f * warp is at f
  std::int64_t shift;  // feature frames of 10 ms
};
constexpr View kViews[] = {{1.0, 0}, {1.04, 0}, {1.0, 2}};
constexpr std::int64_t kNumViews = std::size(kViews);
constexpr double kWarpBoundary = 4800.0;  // Hz; above it the scale returns to the identity, formants lie below

// Where between two bins the features of each bin are: the integer and the fraction.
std::array<double, kNumBins> warped_bins(double warp) {
  const FbankOptions fbank;
  const double low = mel_of(fbank.low_freq), step = (mel_of(fbank.high_freq) - low) / (kNumBins + 1);
  std::array<double, kNumBins> bins;
  for (std::int64_t bin = 0; bin < kNumBins; ++bin) {
    const double center = 700.0 * std::expm1((low + static_cast<double>(bin + 1) * step) / 1127.0);
    const double boundary = kWarpBoundary * std::min(warp, 1.0), target = boundary / warp;
    const double source = center < target ? center * warp
                                          : boundary + (center - target) * (fbank.high_freq - boundary) /
                                                           (fbank.high_freq - target);
    bins[static_cast<std::size_t>(bin)] = std::clamp((mel_of(source) - low) / step - 1.0, 0.0, kNumBins - 1.0);
  }
  return bins;
}

void warp_frequencies(std::vector<float>& features, double warp) {
  const std::array<double, kNumBins> bins = warped_bins(warp);
  std::array<float, kNumBins> row;
  for (auto at = features.begin(); at != features.end(); at += kNumBins) {
    std::copy_n(at, kNumBins, row.begin());
    for (std::size_t bin = 0; bin < kNumBins; ++bin) {
      const std::size_t below = std::min(static_cast<std::size_t>(bins[bin]), static_cast<std::size_t>(kNumBins - 2));
      const auto share = static_cast<float>(bins[bin] - static_cast<double>(below));
      at[static_cast<std::ptrdiff_t>(bin)] = row[below] + share * (row[below + 1] - row[below]);
    }
  }
}

void add_rows(LogProbSums& sums, const Rows& rows, std::int64_t from, std::int64_t to, std::int64_t count) {
  if (sums.empty()) return;
  for (std::int64_t i = 0; i < count; ++i) sums.add(to + i, rows.data + (from + i) * rows.num_columns);
}

std::vector<float> mean(const LogProbSums& sums, std::int64_t frame) {
  return sums.empty() ? std::vector<float>() : sums.mean(frame, kNumViews + 1);
}

}  // namespace

SecondPass::SecondPass(std::int64_t first_frame, std::int64_t num_context, std::int64_t num_frames,
                       std::int64_t max_window, HeadSums first_pass)
    : first_frame_(first_frame),
      num_context_(num_context),
      num_frames_(num_frames),
      max_window_(max_window),
      sums_(std::move(first_pass)) {}

std::optional<EncoderStep> SecondPass::next(const Fbank& fbank) {
  if (window_end_ == num_context_ + num_frames_) {
    if (view_ + 1 == std::size(kViews)) return std::nullopt;
    ++view_;
    num_context_ = window_end_ = 0;
  }
  const std::int64_t num_encoded = num_context_ + num_frames_;
  const View& view = kViews[view_];
  const std::int64_t first = kSubsampling * (first_frame_ - num_context_);
  const std::int64_t num_features =
      std::min(kSubsampling * num_encoded + kFeatureOverlap, fbank.num_frames_ready() - first + view.shift);
  window_start_ = window_end_;
  const std::int64_t begin = kSubsampling * window_start_;
  const std::int64_t num_window = kSubsampling * std::min(num_encoded, max_window_) + kFeatureOverlap;
  window_end_ = std::min(window_start_ + max_window_, num_encoded);
  EncoderStep step{true, begin == 0, {}, num_window, std::min(num_window, num_features - begin)};
  step.features.resize(static_cast<std::size_t>(num_window * kNumBins));
  // What is before the first frame may be gone: that one is repeated.
  const std::int64_t repeated = std::max<std::int64_t>(view.shift - begin, 0);
  float* row = step.features.data() + repeated * kNumBins;
  fbank.get_frames(first + begin + repeated - view.shift, step.num_valid - repeated, row);
  for (std::int64_t i = 0; i < repeated; ++i) std::copy_n(row, kNumBins, step.features.data() + i * kNumBins);
  if (view.warp != 1.0) warp_frequencies(step.features, view.warp);
  return step;
}

std::int64_t SecondPass::add(const Rows& letters, const Rows& phones, std::int64_t num_valid) {
  const std::int64_t skipped = std::clamp<std::int64_t>(num_context_ - window_start_, 0, num_valid);
  const std::int64_t to = window_start_ + skipped - num_context_;
  add_rows(sums_.letters, letters, skipped, to, num_valid - skipped);
  add_rows(sums_.phones, phones, skipped, to, num_valid - skipped);
  return skipped;
}

HeadLogProbs SecondPass::mean_of(std::int64_t frame) const {
  return {mean(sums_.letters, frame), mean(sums_.phones, frame)};
}

}  // namespace asr_stream
