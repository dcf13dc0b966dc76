// Single-producer single-consumer ring of float samples between an audio callback and a recognizer.
//
// - One producer thread calls write/drop, one consumer thread calls read. Counters may be read by any thread.
// - Indices are 64-bit and only grow; they may wrap past 2^64. `index & mask` is the slot, so all slots are usable.
// - The producer never waits, locks or allocates. When the ring is full, new samples are dropped.
// - A gap is published as (position, samples dropped so far) before the samples after it, and a read stops at a gap. So
//   sample times stay correct. While the list of gaps is full, no samples are accepted: the open gap grows instead, so
//   no loss is forgotten.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace asr_stream {

class RingBuffer {
 public:
  static constexpr std::int64_t kMaxCapacity = std::int64_t{1} << 30;
  static constexpr std::size_t kMaxGaps = 64;

  // `capacity` in samples, rounded up to a power of two; std::invalid_argument outside [1, 2^30].
  // `first_index`: only for tests of the wraparound at 2^64.
  explicit RingBuffer(std::int64_t capacity, std::uint64_t first_index = 0)
      : capacity_(round_up(capacity)),
        mask_(capacity_ - 1),
        first_index_(first_index),
        samples_(new float[capacity_]()),
        write_index_(first_index),
        cached_read_index_(first_index),
        read_index_(first_index),
        cached_write_index_(first_index) {}

  RingBuffer(const RingBuffer&) = delete;
  RingBuffer& operator=(const RingBuffer&) = delete;

  // ---- producer thread ----

  // Appends up to `count` samples and returns how many fit; the rest is dropped and counted.
  std::size_t write(const float* samples, std::size_t count) noexcept {
    return write_from(count, [samples](float* out, std::size_t offset, std::size_t n) {
      std::memcpy(out, samples + offset, n * sizeof(float));
    });
  }

  // int16 samples are scaled by 1/32768 into [-1, 1).
  std::size_t write(const std::int16_t* samples, std::size_t count) noexcept {
    return write_from(count, [samples](float* out, std::size_t offset, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<float>(samples[offset + i]) * (1.0f / 32768.0f);
    });
  }

  // Takes every `stride`-th sample: one channel of interleaved frames.
  std::size_t write_strided(const float* samples, std::size_t stride, std::size_t count) noexcept {
    if (stride == 1) return write(samples, count);
    return write_from(count, [samples, stride](float* out, std::size_t offset, std::size_t n) {
      for (std::size_t i = 0; i < n; ++i) out[i] = samples[(offset + i) * stride];
    });
  }

  // Records that `count` samples were lost before they reached the ring.
  void drop(std::uint64_t count) noexcept {
    // Stored after the write index, with release: a consumer that sees the loss also sees every sample before it.
    num_dropped_.store(num_dropped_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

  // ---- consumer thread ----

  struct ReadResult {
    std::size_t num_samples;
    std::uint64_t gap;  // samples lost immediately before the first sample of this read
  };

  // Copies up to `max_samples` into `out`. Never crosses a gap. If the ring is empty and samples were lost at its end,
  // returns that gap without samples.
  ReadResult read(float* out, std::size_t max_samples) noexcept {
    if (max_samples == 0) return {0, 0};
    const std::uint64_t index = read_index_.load(std::memory_order_relaxed);
    // Loaded before the write index: if the ring is empty up to that index, all these losses are at or before `index`.
    const std::uint64_t dropped = num_dropped_.load(std::memory_order_acquire);
    if (cached_write_index_ - index < max_samples) {
      cached_write_index_ = write_index_.load(std::memory_order_acquire);
    }
    std::uint64_t available = cached_write_index_ - index;
    std::uint64_t gap = 0;
    if (available == 0) {
      gap = dropped - num_dropped_seen_;
    } else {
      std::uint64_t head = gap_head_.load(std::memory_order_relaxed);
      const std::uint64_t tail = gap_tail_.load(std::memory_order_acquire);
      if (head != tail && gaps_[head % kMaxGaps].position == index) {
        gap = gaps_[head % kMaxGaps].num_dropped - num_dropped_seen_;
        gap_head_.store(++head, std::memory_order_release);
      }
      if (head != tail) available = std::min(available, gaps_[head % kMaxGaps].position - index);
    }
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(available, max_samples));
    const std::size_t begin = static_cast<std::size_t>(index & mask_);
    const std::size_t first = std::min(count, capacity_ - begin);
    if (count > 0) {
      std::memcpy(out, samples_.get() + begin, first * sizeof(float));
      std::memcpy(out + first, samples_.get(), (count - first) * sizeof(float));
    }
    num_dropped_seen_ += gap;
    sample_offset_.store(sample_offset_.load(std::memory_order_relaxed) + static_cast<std::int64_t>(count + gap),
                         std::memory_order_relaxed);
    read_index_.store(index + count, std::memory_order_release);
    return {count, gap};
  }

  // ---- any thread ----

  std::size_t capacity() const noexcept { return capacity_; }

  std::size_t num_available() const noexcept {
    const std::uint64_t read = read_index_.load(std::memory_order_acquire);
    const std::uint64_t written = write_index_.load(std::memory_order_acquire);
    return static_cast<std::size_t>(std::min<std::uint64_t>(written - read, capacity_));
  }

  std::uint64_t num_written() const noexcept { return write_index_.load(std::memory_order_acquire) - first_index_; }
  std::uint64_t num_dropped() const noexcept { return num_dropped_.load(std::memory_order_acquire); }

  // Position on the device's clock, in samples, after the data returned by `read` so far: samples plus gaps.
  std::int64_t sample_offset() const noexcept { return sample_offset_.load(std::memory_order_relaxed); }

 private:
  struct Gap {
    std::uint64_t position;     // index of the first sample after the gap
    std::uint64_t num_dropped;  // all samples dropped before that sample, since the start
  };

  static std::size_t round_up(std::int64_t capacity) {
    if (capacity < 1 || capacity > kMaxCapacity) {
      throw std::invalid_argument("capacity must be between 1 and 2**30 samples, got " + std::to_string(capacity));
    }
    std::size_t rounded = 1;
    while (rounded < static_cast<std::size_t>(capacity)) rounded *= 2;
    return rounded;
  }

  template <typename Copy>
  std::size_t write_from(std::size_t count, Copy copy) noexcept {
    const std::uint64_t index = write_index_.load(std::memory_order_relaxed);
    if (capacity_ - (index - cached_read_index_) < count) {
      cached_read_index_ = read_index_.load(std::memory_order_acquire);
    }
    const auto space = capacity_ - static_cast<std::size_t>(index - cached_read_index_);
    std::size_t accepted = std::min(count, space);
    if (accepted > 0 && !publish_gap(index)) accepted = 0;
    if (accepted > 0) {
      const std::size_t begin = static_cast<std::size_t>(index & mask_);
      const std::size_t first = std::min(accepted, capacity_ - begin);
      copy(samples_.get() + begin, 0, first);
      if (first < accepted) copy(samples_.get(), first, accepted - first);
      write_index_.store(index + accepted, std::memory_order_release);
    }
    if (accepted < count) drop(count - accepted);
    return accepted;
  }

  // Returns true if no gap is open at `index` or it is now published, and false if the list of gaps is full.
  bool publish_gap(std::uint64_t index) noexcept {
    const std::uint64_t dropped = num_dropped_.load(std::memory_order_relaxed);
    if (dropped == num_dropped_published_) return true;
    const std::uint64_t tail = gap_tail_.load(std::memory_order_relaxed);
    if (tail - gap_head_.load(std::memory_order_acquire) == kMaxGaps) return false;
    gaps_[tail % kMaxGaps] = {index, dropped};
    gap_tail_.store(tail + 1, std::memory_order_release);
    num_dropped_published_ = dropped;
    return true;
  }

  static constexpr std::size_t kCacheLine = 64;

  const std::size_t capacity_;
  const std::uint64_t mask_;
  const std::uint64_t first_index_;
  const std::unique_ptr<float[]> samples_;
  std::array<Gap, kMaxGaps> gaps_{};

  // Written by the producer.
  alignas(kCacheLine) std::atomic<std::uint64_t> write_index_;
  std::uint64_t cached_read_index_;
  std::uint64_t num_dropped_published_ = 0;
  std::atomic<std::uint64_t> num_dropped_{0};
  std::atomic<std::uint64_t> gap_tail_{0};

  // Written by the consumer.
  alignas(kCacheLine) std::atomic<std::uint64_t> read_index_;
  std::uint64_t cached_write_index_;
  std::uint64_t num_dropped_seen_ = 0;
  std::atomic<std::uint64_t> gap_head_{0};
  std::atomic<std::int64_t> sample_offset_{0};

  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "the audio callback must not lock");
};

}  // namespace asr_stream
