#include "frontend/capture_buffer.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

namespace asr_stream {

namespace {

// Values of portaudio.h.
constexpr unsigned long kPaInputOverflow = 0x2;
constexpr int kPaContinue = 0;

constexpr double kMinGapS = 0.1;
constexpr std::int64_t kLatelyNs = 10'000'000'000;
constexpr std::int64_t kSettleNs = 1'000'000'000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::uint64_t LossMeter::lost(std::int64_t elapsed_ns, std::int64_t num_samples, bool overflow,
                              int sample_rate) noexcept {
  const auto due = static_cast<std::int64_t>(1e-9 * static_cast<double>(elapsed_ns) * sample_rate);
  const std::int64_t lag = due - num_samples;
  const std::int64_t usual = std::min({least_lag_, earlier_least_lag_, lag});
  if (overflow && static_cast<double>(lag - usual) >= kMinGapS * sample_rate) {
    last_loss_ns_ = elapsed_ns;
    return static_cast<std::uint64_t>(lag - usual);
  }
  // The callback that reported the loss may have been late. The audio after it would then seem early, so its lag is
  // ignored.
  if (elapsed_ns - last_loss_ns_ < kSettleNs) return 0;
  if (elapsed_ns - lately_since_ns_ > kLatelyNs) {
    earlier_least_lag_ = std::exchange(least_lag_, lag);
    lately_since_ns_ = elapsed_ns;
  }
  least_lag_ = std::min(least_lag_, lag);
  return 0;
}

CaptureBuffer::Callback CaptureBuffer::callback(int channel, int num_channels, int sample_rate) {
  if (num_channels < 1 || num_channels > kMaxChannels) {
    throw std::invalid_argument("num_channels must be between 1 and " + std::to_string(kMaxChannels) + ", got " +
                                std::to_string(num_channels));
  }
  if (channel < 0 || channel >= num_channels) {
    throw std::invalid_argument("channel must be between 0 and num_channels - 1 = " +
                                std::to_string(num_channels - 1) + ", got " + std::to_string(channel));
  }
  if (sample_rate < 1) throw std::invalid_argument("sample_rate must be positive, got " + std::to_string(sample_rate));
  const std::lock_guard<std::mutex> lock(targets_mutex_);
  for (Target& target : targets_) {
    if (target.channel == channel && target.num_channels == num_channels && target.sample_rate == sample_rate) {
      return {&on_audio, &target};
    }
  }
  targets_.push_back({this, channel, num_channels, sample_rate});
  return {&on_audio, &targets_.back()};
}

int CaptureBuffer::on_audio(const void* input, void*, unsigned long num_frames, const void*,
                            unsigned long status_flags, void* user_data) noexcept {
  const Target& target = *static_cast<const Target*>(user_data);
  const bool overflow = (status_flags & kPaInputOverflow) != 0;
  target.buffer->receive(static_cast<const float*>(input), num_frames, overflow, target);
  return kPaContinue;
}

void CaptureBuffer::receive(const float* input, unsigned long num_frames, bool overflow,
                            const Target& target) noexcept {
  const std::int64_t now = now_ns();
  std::int64_t never = 0;
  first_callback_ns_.compare_exchange_strong(never, now, std::memory_order_relaxed);
  if (overflow) num_input_overflows_.fetch_add(1, std::memory_order_relaxed);
  if (producer.try_enter()) {
    const auto num_samples = static_cast<std::int64_t>(ring.num_written() + ring.num_dropped() + num_frames);
    const std::uint64_t lost =
        loss_meter_.lost(now - first_callback_ns(), num_samples, overflow, target.sample_rate);
    if (lost > 0) ring.drop(lost);
    if (input != nullptr) {
      ring.write_strided(input + target.channel, static_cast<std::size_t>(target.num_channels), num_frames);
    } else {
      ring.drop(num_frames);
    }
    producer.leave();
  } else {
    // Another producer is writing, against the contract. Waiting here would interrupt the audio of the whole host.
    num_input_overflows_.fetch_add(1, std::memory_order_relaxed);
  }
  last_callback_ns_.store(now, std::memory_order_relaxed);
  num_callbacks_.fetch_add(1, std::memory_order_release);
}

}  // namespace asr_stream
