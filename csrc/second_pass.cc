#include "second_pass.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "contract.h"
#include "frontend/mel_filters.h"

namespace asr_stream {

namespace {

struct Pass {
  double warp;         // moves content at frequency f * warp to f
  std::int64_t shift;  // feature frames of 10 ms
};
constexpr Pass kPasses[kNumPasses] = {{1.0, 0}, {1.04, 0}, {1.0, 2}};
constexpr double kWarpBoundary = 4800.0;  // Hz; formants are below it, and above it the warp returns to the identity

// For each bin, the position between two bins that its features are taken from: integer part and fraction.
std::array<double, kNumBins> warped_bins(double warp) {
  const double low = mel_of(kLowFreq), step = (mel_of(kHighFreq) - low) / (kNumBins + 1);
  std::array<double, kNumBins> bins;
  for (std::int64_t bin = 0; bin < kNumBins; ++bin) {
    const double center = 700.0 * std::expm1((low + static_cast<double>(bin + 1) * step) / 1127.0);
    const double boundary = kWarpBoundary * std::min(warp, 1.0), target = boundary / warp;
    const double source = center < target ? center * warp
                                          : boundary + (center - target) * (kHighFreq - boundary) /
                                                           (kHighFreq - target);
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

}  // namespace

void SecondPass::append(const float* letters, std::int64_t num_letters, const float* phones, std::int64_t num_phones,
                        bool is_silent) {
  letters_.append(letters, num_letters);
  if (phones) phones_.append(phones, num_phones);
  if (!is_silent && speech_end_ == 0) speech_begin_ = num_frames_;
  ++num_frames_;
  if (!is_silent) speech_end_ = num_frames_;
}

std::optional<EncoderStep> SecondPass::next(const Fbank& fbank, std::int64_t num_context, bool is_over) {
  const std::int64_t end = is_over ? end_of_speech() : num_frames_;
  if (is_over ? num_done_ >= end : !is_due()) {
    if (is_over) num_done_ = num_frames_;  // silence at the end needs no run
    return std::nullopt;
  }
  num_context_ = has_begun() ? 0 : num_context;
  if (!has_begun() && num_context == 0) num_done_ = encoded_begin_ = begin_of_speech();
  const Pass& pass = kPasses[pass_];
  const std::int64_t begin = kSubsampling * num_done_;
  window_end_ = std::min(num_done_ + window_, end);
  const std::int64_t first = kSubsampling * (first_frame_ + num_done_ - num_context_) - pass.shift;
  const std::int64_t num_features = kSubsampling * (window_end_ - num_done_ + num_context_) + kFeatureOverlap;
  EncoderStep step{kFirstPassSlot + pass_, num_done_ == encoded_begin_, is_over && window_end_ == end, {},
                   num_features, std::min(num_features, fbank.num_frames_ready() - first)};
  step.features.resize(static_cast<std::size_t>(num_features * kNumBins));
  // The features before the utterance may have been discarded. Its first frames are repeated instead.
  const std::int64_t repeated = std::max<std::int64_t>(pass.shift - begin, 0);
  float* row = step.features.data() + repeated * kNumBins;
  fbank.get_frames(first + repeated, step.num_valid - repeated, row);
  for (std::int64_t i = 0; i < repeated; ++i) std::copy_n(row, kNumBins, step.features.data() + i * kNumBins);
  if (pass.warp != 1.0) warp_frequencies(step.features, pass.warp);
  return step;
}

std::int64_t SecondPass::add(const Rows& letters, const Rows& phones, std::int64_t num_valid) {
  const std::int64_t skipped = std::min(num_context_, num_valid);
  add_rows(letters_, letters, skipped, num_done_, num_valid - skipped);
  add_rows(phones_, phones, skipped, num_done_, num_valid - skipped);
  pass_ = (pass_ + 1) % kNumPasses;
  if (pass_ == 0) num_done_ = window_end_;
  return skipped;
}

HeadLogProbs SecondPass::mean_of(std::int64_t frame) const {
  const std::int64_t num_passes = frame < encoded_begin_ || frame >= window_end_ ? 1 : kNumPasses + 1;
  const auto mean = [&](const LogProbSums& sums) {
    return sums.empty() ? std::vector<float>() : sums.mean(frame, num_passes);
  };
  return {mean(letters_), mean(phones_)};
}

}  // namespace asr_stream
