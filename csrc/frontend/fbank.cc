#include "frontend/fbank.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "frontend/simd.h"

namespace asr_stream {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr int kFftSize = 512;
constexpr std::size_t kBlock = 4096;  // samples processed at a time, so that a long push needs no long copy

// Sums in 16 fixed lanes, so that the compiler can vectorize it and the order of additions is the same everywhere.
ASR_STREAM_MULTIVERSION
double sum(const float* x, int count) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  }
  for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += x[i];
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

ASR_STREAM_MULTIVERSION
void remove_mean_and_window(const float* ASR_STREAM_RESTRICT x, double mean,
                            const double* ASR_STREAM_RESTRICT window, int count, double* ASR_STREAM_RESTRICT out) {
  // Kaldi uses the first sample as its own predecessor.
  const double first = x[0] - mean;
  out[0] = (first - kPreemphasis * first) * window[0];
  for (int i = 1; i < count; ++i) out[i] = ((x[i] - mean) - kPreemphasis * (x[i - 1] - mean)) * window[i];
}

ASR_STREAM_MULTIVERSION
int replace_nonfinite(const float* ASR_STREAM_RESTRICT in, int count, float* ASR_STREAM_RESTRICT out) {
  int replaced = 0;
  for (int i = 0; i < count; ++i) {
    const bool ok = std::fabs(in[i]) <= Fbank::kMaxMagnitude;  // false for NaN
    out[i] = ok ? in[i] : 0.0f;
    replaced += ok ? 0 : 1;
  }
  return replaced;
}

}  // namespace

int to_floats(const float* samples, std::size_t count, float* out) {
  return replace_nonfinite(samples, static_cast<int>(count), out);
}

int to_floats(const std::int16_t* samples, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(samples[i]) * (1.0f / 32768.0f);
  return 0;
}

Fbank::Fbank(std::int64_t num_silent)
    : fft_(kFftSize),
      mel_filters_(kNumBins, kLowFreq, kHighFreq, kSampleRate, kFftSize),
      frame_(kFftSize),
      power_(kFftSize / 2 + 1 + MelFilters::kPadding) {
  for (int i = 0; i < kFrameLength; ++i) {
    const double hann = 0.5 - 0.5 * std::cos(2.0 * kPi * i / (kFrameLength - 1));
    window_.push_back(std::pow(hann, 0.85));  // Kaldi's povey window
  }
  if (num_silent >= kFrameLength) {
    num_samples_ = num_silent;
    num_frames_ = first_frame_ = features_begin_ = (num_silent + kPad - kFrameLength) / kFrameShift + 1;
    samples_begin_ = frame_start(num_frames_);
    samples_.resize(static_cast<std::size_t>(num_samples_ - samples_begin_));
  }
}

template <typename Sample>
void Fbank::accept_waveform(const Sample* samples, std::size_t count) {
  if (finished_) {
    throw std::invalid_argument("accept_waveform after input_finished: make another object for the next stream");
  }
  for (std::size_t done = 0; done < count;) {
    const std::size_t block = std::min(kBlock, count - done), held = samples_.size();
    samples_.resize(held + block);
    num_nonfinite_ += to_floats(samples + done, block, samples_.data() + held);
    num_samples_ += static_cast<std::int64_t>(block);
    done += block;
    compute_ready_frames();
  }
}

template void Fbank::accept_waveform(const float* samples, std::size_t count);
template void Fbank::accept_waveform(const std::int16_t* samples, std::size_t count);

void Fbank::compute_ready_frames() {
  while (frame_start(num_frames_) + kFrameLength <= num_samples_) {
    const std::int64_t start = frame_start(num_frames_);
    if (start >= 0) {
      compute_frame(samples_.data() + (start - samples_begin_));
    } else {
      compute_edge_frame();
    }
  }
  // Keeps the samples of the next frame. At the end of the audio, its reflection reaches back window/2 samples, which
  // is less than the window - shift samples that are always kept.
  const std::int64_t needed = std::max<std::int64_t>(0, frame_start(num_frames_));
  if (needed > samples_begin_) {
    samples_.erase(samples_.begin(), samples_.begin() + (needed - samples_begin_));
    samples_begin_ = needed;
  }
}

void Fbank::input_finished() {
  if (finished_) return;
  finished_ = true;
  const std::int64_t total_frames = (num_samples_ + kFrameShift / 2) / kFrameShift;
  while (num_frames_ < total_frames) compute_edge_frame();
  samples_ = {};
}

// Computes a frame whose window extends beyond the audio. Samples are reflected at the edge: sample -1 is sample 0.
void Fbank::compute_edge_frame() {
  std::vector<float> edge;
  const std::int64_t start = frame_start(num_frames_);
  for (std::int64_t i = start; i < start + kFrameLength; ++i) {
    std::int64_t at = i;
    while (at < 0 || at >= num_samples_) at = at < 0 ? -1 - at : 2 * num_samples_ - 1 - at;
    edge.push_back(samples_[static_cast<std::size_t>(at - samples_begin_)]);
  }
  compute_frame(edge.data());
}

void Fbank::compute_frame(const float* samples) {
  const double mean = sum(samples, kFrameLength) / kFrameLength;
  remove_mean_and_window(samples, mean, window_.data(), kFrameLength, frame_.data());
  fft_.power_spectrum(frame_.data(), power_.data());
  const std::size_t held = features_.size();
  features_.resize(held + static_cast<std::size_t>(kNumBins));
  mel_filters_.log_mel(power_.data(), features_.data() + held);
  ++num_frames_;
}

void Fbank::check_range(std::int64_t start, std::int64_t count) const {
  if (count < 0 || start < first_frame_ || start > num_frames_ || count > num_frames_ - start) {
    throw std::invalid_argument("frames [" + std::to_string(start) + ", " + std::to_string(start) + " + " +
                                std::to_string(count) + ") are not held: first_frame is " +
                                std::to_string(first_frame_) + " and num_frames_ready is " +
                                std::to_string(num_frames_));
  }
}

void Fbank::get_frames(std::int64_t start, std::int64_t count, float* out) const {
  check_range(start, count);
  std::copy_n(features_.begin() + (start - features_begin_) * kNumBins, count * kNumBins, out);
}

void Fbank::discard_frames(std::int64_t before) {
  if (before < 0 || before > num_frames_) {
    throw std::invalid_argument("discard_frames: before must be between 0 and num_frames_ready = " +
                                std::to_string(num_frames_) + ", got " + std::to_string(before));
  }
  first_frame_ = std::max(first_frame_, before);
  // Moving the rest takes time, so it happens only when at least half of the memory is unused.
  if (first_frame_ - features_begin_ >= num_frames_ - first_frame_) {
    features_.erase(features_.begin(), features_.begin() + (first_frame_ - features_begin_) * kNumBins);
    features_begin_ = first_frame_;
    if (features_.capacity() > 4 * features_.size() + (std::size_t{1} << 16)) features_.shrink_to_fit();
  }
}

}  // namespace asr_stream
