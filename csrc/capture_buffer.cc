#include "capture_buffer.h"

#include <chrono>
#include <stdexcept>
#include <string>

namespace asr_stream {

namespace {

// Values of portaudio.h.
constexpr unsigned long kPaInputOverflow = 0x2;
constexpr int kPaContinue = 0;

}  // namespace

CaptureBuffer::Callback CaptureBuffer::callback(int channel, int num_channels) {
  if (num_channels < 1 || num_channels > kMaxChannels) {
    throw std::invalid_argument("num_channels must be between 1 and " + std::to_string(kMaxChannels) + ", got " +
                                std::to_string(num_channels));
  }
  if (channel < 0 || channel >= num_channels) {
    throw std::invalid_argument("channel must be between 0 and num_channels - 1 = " +
                                std::to_string(num_channels - 1) + ", got " + std::to_string(channel));
  }
  const std::lock_guard<std::mutex> lock(targets_mutex_);
  for (Target& target : targets_) {
    if (target.channel == channel && target.num_channels == num_channels) return {&on_audio, &target};
  }
  targets_.push_back({this, channel, num_channels});
  return {&on_audio, &targets_.back()};
}

int CaptureBuffer::on_audio(const void* input, void*, unsigned long num_frames, const void*,
                            unsigned long status_flags, void* user_data) noexcept {
  const Target& target = *static_cast<const Target*>(user_data);
  target.buffer->receive(static_cast<const float*>(input), num_frames, status_flags, target.channel,
                         target.num_channels);
  return kPaContinue;
}

void CaptureBuffer::receive(const float* input, unsigned long num_frames, unsigned long status_flags, int channel,
                            int num_channels) noexcept {
  // The flag says that the host lost audio before this buffer, but not how much: it is counted, not placed.
  if ((status_flags & kPaInputOverflow) != 0) num_input_overflows_.fetch_add(1, std::memory_order_relaxed);
  if (producer.try_enter()) {
    if (input != nullptr) {
      ring.write_strided(input + channel, static_cast<std::size_t>(num_channels), num_frames);
    } else {
      ring.drop(num_frames);
    }
    producer.leave();
  } else {
    // Another producer is writing, against the contract. Waiting here would break the audio of the whole host.
    num_input_overflows_.fetch_add(1, std::memory_order_relaxed);
  }
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  std::int64_t never = 0;
  first_callback_ns_.compare_exchange_strong(never, now, std::memory_order_relaxed);
  last_callback_ns_.store(now, std::memory_order_relaxed);
  num_callbacks_.fetch_add(1, std::memory_order_release);
}

}  // namespace asr_stream
