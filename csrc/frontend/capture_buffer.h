// A ring buffer together with the PortAudio callback that fills it, so that capture never waits for a caller's
// language runtime. No PortAudio header is needed: the callback has the C signature of PaStreamCallback.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <list>
#include <mutex>

#include "exclusive_use.h"
#include "frontend/ring_buffer.h"

namespace asr_stream {

extern "C" {
// PaStreamCallback of portaudio.h for input in paFloat32, interleaved.
typedef int (*PortAudioCallback)(const void* input, void* output, unsigned long num_frames, const void* time_info,
                                 unsigned long status_flags, void* user_data);
}

// Estimates how many samples a host dropped. PortAudio flags an overflow but not its size, so the samples received are
// compared with the time elapsed since the first callback, minus the usual lag.
class LossMeter {
 public:
  // Must be called at every callback, `elapsed_ns` after the first one. num_samples: all samples accounted for,
  // including those of this callback. Returns how many samples were lost before them: 0 unless `overflow`, and 0 for
  // less than 100 ms, which may be scheduling delay. The result counts as accounted for in the next call.
  std::uint64_t lost(std::int64_t elapsed_ns, std::int64_t num_samples, bool overflow, int sample_rate) noexcept;

 private:
  // The smallest lag of the audio behind the clock, in samples, in the current and the previous period. It is estimated
  // anew in each period, because the clocks of device and host drift apart.
  std::int64_t least_lag_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t earlier_least_lag_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t lately_since_ns_ = 0;
  std::int64_t last_loss_ns_ = std::numeric_limits<std::int64_t>::min() / 2;  // long before the first callback
};

class CaptureBuffer {
 public:
  static constexpr int kMaxChannels = 1024;

  explicit CaptureBuffer(std::int64_t capacity) : ring(capacity) {}

  // The arguments of Pa_OpenStream. `user_data` stays valid as long as this object.
  struct Callback {
    PortAudioCallback function;
    void* user_data;
  };

  // A callback that stores channel `channel` of `num_channels` interleaved channels at `sample_rate` Hz. If the host
  // reports lost audio, the ring gets a gap of the length that LossMeter estimates. Throws std::invalid_argument if
  // `num_channels` is outside [1, 1024], `channel` is outside [0, num_channels), or `sample_rate` is not positive.
  Callback callback(int channel, int num_channels, int sample_rate);

  // Counters for a watchdog, readable from any thread. Times are std::chrono::steady_clock in ns; 0 before the first
  // callback.
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
    int sample_rate;
  };

  static int on_audio(const void* input, void* output, unsigned long num_frames, const void* time_info,
                      unsigned long status_flags, void* user_data) noexcept;
  void receive(const float* input, unsigned long num_frames, bool overflow, const Target& target) noexcept;

  std::mutex targets_mutex_;   // taken by `callback` only, never in the audio thread
  std::list<Target> targets_;  // a list, so that addresses stay valid
  std::atomic<std::int64_t> num_callbacks_{0};
  std::atomic<std::int64_t> num_input_overflows_{0};
  std::atomic<std::int64_t> first_callback_ns_{0};
  std::atomic<std::int64_t> last_callback_ns_{0};
  LossMeter loss_meter_;  // of the producer
};

}  // namespace asr_stream
