// A ring buffer together with the PortAudio callback that fills it, so that capture never waits for a caller's
// language runtime. No PortAudio header is needed: the callback has the C signature of PaStreamCallback.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>

#include "exclusive_use.h"
#include "ring_buffer.h"

namespace asr_stream {

extern "C" {
// PaStreamCallback of portaudio.h for input in paFloat32, interleaved.
typedef int (*PortAudioCallback)(const void* input, void* output, unsigned long num_frames, const void* time_info,
                                 unsigned long status_flags, void* user_data);
}

class CaptureBuffer {
 public:
  static constexpr int kMaxChannels = 1024;

  explicit CaptureBuffer(std::int64_t capacity) : ring(capacity) {}

  // What to hand to Pa_OpenStream. `user_data` stays valid as long as this object.
  struct Callback {
    PortAudioCallback function;
    void* user_data;
  };

  // The callback stores channel `channel` of `num_channels` interleaved ones. std::invalid_argument when
  // `num_channels` is outside [1, 1024] or `channel` outside [0, num_channels).
  Callback callback(int channel, int num_channels);

  // Counters for a watchdog; any thread. Times are of std::chrono::steady_clock in ns, 0 before the first callback.
  std::int64_t num_callbacks() const noexcept { return num_callbacks_.load(std::memory_order_acquire); }
  std::int64_t num_input_overflows() const noexcept { return num_input_overflows_.load(std::memory_order_relaxed); }
  std::int64_t first_callback_ns() const noexcept { return first_callback_ns_.load(std::memory_order_relaxed); }
  std::int64_t last_callback_ns() const noexcept { return last_callback_ns_.load(std::memory_order_relaxed); }

  RingBuffer ring;
  ExclusiveUse producer;
  ExclusiveUse consumer;

 private:
  struct Target {
    CaptureBuffer* buffer;
    int channel;
    int num_channels;
  };

  static int on_audio(const void* input, void* output, unsigned long num_frames, const void* time_info,
                      unsigned long status_flags, void* user_data) noexcept;
  void receive(const float* input, unsigned long num_frames, unsigned long status_flags, int channel,
               int num_channels) noexcept;

  std::mutex targets_mutex_;   // taken by `callback` only, never in the audio thread
  std::list<Target> targets_;  // a list: addresses stay valid
  std::atomic<std::int64_t> num_callbacks_{0};
  std::atomic<std::int64_t> num_input_overflows_{0};
  std::atomic<std::int64_t> first_callback_ns_{0};
  std::atomic<std::int64_t> last_callback_ns_{0};
};

}  // namespace asr_stream
