#include "frontend/ring_buffer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "allocation_counter.h"
#include "frontend/capture_buffer.h"

#ifndef ASR_STREAM_NUM_ITEMS
#define ASR_STREAM_NUM_ITEMS 100000000
#endif

namespace asr_stream {
namespace {

// The sample at device time `position`: distinct for 2^24 consecutive positions, exact in float.
float sample_at(std::uint64_t position) { return static_cast<float>(position & 0xffffff); }

std::vector<float> ramp(std::uint64_t first, std::size_t count) {
  std::vector<float> samples(count);
  for (std::size_t i = 0; i < count; ++i) samples[i] = sample_at(first + i);
  return samples;
}

// Writes blocks of 1 to N samples in one thread while another reads. Every sample read must belong to its device time,
// and every loss must be accounted for. With `wait_for_space`, nothing may be lost.
void run_threads(RingBuffer& ring, std::uint64_t num_items, bool wait_for_space) {
  std::atomic<bool> done{false};
  std::thread producer([&] {
    std::minstd_rand random(1);
    std::vector<float> block;
    for (std::uint64_t position = 0; position < num_items;) {
      std::size_t count = 1 + random() % 700;
      count = static_cast<std::size_t>(std::min<std::uint64_t>(count, num_items - position));
      if (wait_for_space) {
        while (ring.capacity() - ring.num_available() < count) std::this_thread::yield();
      }
      block.resize(count);
      for (std::size_t i = 0; i < count; ++i) block[i] = sample_at(position + i);
      ring.write(block.data(), count);
      position += count;
      if (!wait_for_space && random() % 64 == 0) std::this_thread::yield();
    }
    done.store(true, std::memory_order_release);
  });
  std::minstd_rand random(2);
  std::vector<float> out(1000);
  std::uint64_t position = 0, num_read = 0, num_gap = 0, num_wrong = 0;
  // A consumer that begins late must miss samples, whatever the scheduling.
  while (!wait_for_space && ring.num_dropped() == 0) std::this_thread::yield();
  for (;;) {
    const bool last = done.load(std::memory_order_acquire);
    const RingBuffer::ReadResult result = ring.read(out.data(), 1 + random() % out.size());
    position += result.gap;
    for (std::size_t i = 0; i < result.num_samples; ++i) num_wrong += out[i] != sample_at(position + i);
    position += result.num_samples;
    num_read += result.num_samples;
    num_gap += result.gap;
    if (result.num_samples == 0 && result.gap == 0) {
      if (last) break;
      std::this_thread::yield();
    } else if (!wait_for_space && random() % 16 == 0) {
      for (int i = 0; i < 20; ++i) std::this_thread::yield();  // a slow consumer
    }
  }
  producer.join();
  EXPECT_EQ(num_wrong, 0u);
  EXPECT_EQ(num_read + num_gap, num_items);
  EXPECT_EQ(num_gap, ring.num_dropped());
  EXPECT_EQ(num_read, ring.num_written());
  EXPECT_EQ(ring.sample_offset(), static_cast<std::int64_t>(num_items));
  if (wait_for_space) {
    EXPECT_EQ(num_gap, 0u);
  } else {
    EXPECT_GT(num_gap, 0u);
  }
}

TEST(RingBuffer, ThreadsLoseAndReorderNothing) {
  RingBuffer ring(1 << 16);
  run_threads(ring, ASR_STREAM_NUM_ITEMS, true);
}

TEST(RingBuffer, ThreadsReportTrueGapsToASlowConsumer) {
  RingBuffer ring(1024);
  run_threads(ring, ASR_STREAM_NUM_ITEMS / 10, false);
}

TEST(RingBuffer, ThreadsAcrossTheWrapOfAnIndexOf31And32And64Bits) {
  for (const std::uint64_t end : {std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{0}}) {
    RingBuffer ring(1024, end - 50000);
    run_threads(ring, 200000, true);
    RingBuffer lossy(1024, end - 50000);
    run_threads(lossy, 300000, false);
  }
}

TEST(RingBuffer, AReadOfNothingLeavesTheGap) {
  RingBuffer ring(16);
  ring.drop(5);
  float out = 0.0f;
  EXPECT_EQ(ring.read(&out, 0).gap, 0u);
  EXPECT_EQ(ring.sample_offset(), 0);
  EXPECT_EQ(ring.read(&out, 1).gap, 5u);
}

TEST(RingBuffer, PositionsGoPast32Bits) {
  RingBuffer ring(16);
  const std::vector<float> in = ramp(0, 8);
  std::vector<float> out(16);
  std::int64_t offset = 0;
  for (const std::uint64_t lost : {std::uint64_t{1} << 31, std::uint64_t{1} << 32, std::uint64_t{1} << 40}) {
    ring.drop(lost);
    ring.write(in.data(), in.size());
    const auto result = ring.read(out.data(), out.size());
    EXPECT_EQ(result.gap, lost);
    offset += static_cast<std::int64_t>(lost) + 8;
    EXPECT_EQ(ring.sample_offset(), offset);
  }
}

TEST(RingBuffer, EverySlotIsUsableAcrossTheIndexWrap) {
  RingBuffer ring(8, std::numeric_limits<std::uint64_t>::max() - 2);
  const std::vector<float> in = ramp(0, 8);
  EXPECT_EQ(ring.write(in.data(), 8), 8u);
  EXPECT_EQ(ring.num_available(), 8u);
  EXPECT_EQ(ring.write(in.data(), 1), 0u);
  std::vector<float> out(9);
  const auto result = ring.read(out.data(), 9);
  EXPECT_EQ(result.num_samples, 8u);
  EXPECT_EQ(result.gap, 0u);
  out.resize(8);
  EXPECT_EQ(out, in);
  EXPECT_EQ(ring.num_written(), 8u);
}

TEST(RingBuffer, AFullListOfGapsLosesNoCount) {
  RingBuffer ring(512);
  const std::vector<float> in = ramp(0, 4096);
  std::vector<float> out(4096);
  std::uint64_t position = 0, read_position = 0;
  ring.write(in.data(), 512);
  position = 512;
  // Each round loses one sample, frees one slot and fills it, so there are more gaps than the list can hold.
  for (std::size_t round = 0; round < 3 * RingBuffer::kMaxGaps; ++round) {
    ring.write(in.data() + position, 1);
    ++position;
    ASSERT_EQ(ring.read(out.data(), 1).gap, 0u);
    ASSERT_EQ(out[0], sample_at(read_position++));
    ring.write(in.data() + position, 1);
    ++position;
  }
  EXPECT_EQ(ring.num_written() + ring.num_dropped(), position);
  EXPECT_EQ(ring.num_written(), 512u + RingBuffer::kMaxGaps);
  for (;;) {
    const auto result = ring.read(out.data(), out.size());
    read_position += result.gap;
    for (std::size_t i = 0; i < result.num_samples; ++i) ASSERT_EQ(out[i], sample_at(read_position + i));
    read_position += result.num_samples;
    if (result.num_samples == 0 && result.gap == 0) break;
  }
  EXPECT_EQ(read_position, position);
}

TEST(RingBuffer, WriteAllocatesNothing) {
  CaptureBuffer buffer(256);
  const auto callback = buffer.callback(1, 2, 16000);
  const std::vector<float> in = ramp(0, 600);
  const std::vector<std::int16_t> in16(600, 5);
  const long before = num_allocations();
  for (int i = 0; i < 100; ++i) {
    buffer.ring.write(in.data(), 100);
    buffer.ring.write(in16.data(), 100);
    callback.function(in.data(), nullptr, 300, nullptr, 0, callback.user_data);
  }
  EXPECT_EQ(num_allocations(), before);
  ::operator delete(::operator new(1));  // calls the functions directly, because compilers do not remove these calls
  EXPECT_GT(num_allocations(), before);  // the counter works
}

TEST(CaptureBuffer, CallbackTakesOneChannelAndCounts) {
  CaptureBuffer buffer(64);
  EXPECT_EQ(buffer.first_callback_ns(), 0);
  const auto callback = buffer.callback(1, 3, 16000);
  const std::vector<float> in = ramp(0, 30);
  EXPECT_EQ(callback.function(in.data(), nullptr, 10, nullptr, 0, callback.user_data), 0);
  const std::int64_t first = buffer.first_callback_ns();
  EXPECT_GT(first, 0);
  EXPECT_EQ(callback.function(in.data(), nullptr, 0, nullptr, 0x2, callback.user_data), 0);
  EXPECT_EQ(buffer.num_callbacks(), 2);
  EXPECT_EQ(buffer.num_input_overflows(), 1);
  EXPECT_EQ(buffer.first_callback_ns(), first);
  EXPECT_GE(buffer.last_callback_ns(), first);
  std::vector<float> out(64);
  ASSERT_EQ(buffer.ring.read(out.data(), 64).num_samples, 10u);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(out[i], in[3 * i + 1]);
  // Audio that the host lost becomes a gap whose length comes from the clock.
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  callback.function(in.data(), nullptr, 10, nullptr, 0x2, callback.user_data);
  const auto result = buffer.ring.read(out.data(), 64);
  EXPECT_EQ(result.num_samples, 10u);
  EXPECT_GE(result.gap, 16u * 140);
  // A callback without input is a loss at a known position.
  callback.function(nullptr, nullptr, 7, nullptr, 0, callback.user_data);
  EXPECT_EQ(buffer.ring.read(out.data(), 64).gap, 7u);
}

TEST(LossMeter, TellsLossesByTheClock) {
  // Blocks of 20 ms at 16 kHz from a device whose clock is slow by 1 in 1000 and whose callbacks are sometimes 15 ms
  // late.
  LossMeter meter;
  std::int64_t accounted = 0, elapsed_ms = 0;
  const auto callback = [&](bool overflow, std::int64_t late_ms = 0) {
    accounted += 320;
    const std::uint64_t lost = meter.lost((elapsed_ms + late_ms) * 1'001'000, accounted, overflow, 16000);
    accounted += static_cast<std::int64_t>(lost);
    elapsed_ms += 20;
    return static_cast<double>(lost);
  };
  for (const int minutes : {0, 60}) {
    for (int i = 0; i < 100 + 3000 * minutes; ++i) ASSERT_EQ(callback(false, i % 7 == 3 ? 15 : 0), 0);
    EXPECT_EQ(callback(true), 0);
    elapsed_ms += 80;
    EXPECT_EQ(callback(true), 0);  // too little for a gap
    EXPECT_EQ(callback(false), 0);
    elapsed_ms += 400;
    EXPECT_NEAR(callback(true), 480 * 16, 400);  // with the short loss before it
    EXPECT_EQ(callback(true), 0);                // already accounted for
    elapsed_ms += 400;
    EXPECT_EQ(callback(false), 0);  // late, but no overflow is reported
    elapsed_ms -= 400;
  }
}

TEST(LossMeter, LateCallbacksDoNotAddUp) {
  // Two blocks of 20 ms come at the end of every half second: the first, which reports the loss, is late.
  LossMeter meter;
  std::int64_t accounted = 0, elapsed_ms = 0, lost_ms = 0;
  const auto callback = [&](bool overflow) {
    accounted += 320;
    const auto lost = static_cast<std::int64_t>(meter.lost(elapsed_ms * 1'000'000, accounted, overflow, 16000));
    accounted += lost;
    lost_ms += lost / 16;
  };
  for (int i = 0; i < 100; ++i, elapsed_ms += 20) callback(false);
  elapsed_ms -= 20;
  for (int i = 0; i < 20; ++i) {
    elapsed_ms += 500;
    callback(true);
    callback(false);
  }
  EXPECT_NEAR(static_cast<double>(lost_ms), 20 * 460, 20);
}

TEST(LossMeter, ALateCallbackThatBeginsAPeriodHidesNoLoss) {
  LossMeter meter;
  const auto lost = [&meter](std::int64_t block, std::int64_t late_ms, bool overflow) {
    return meter.lost((20 * block + late_ms) * 1'000'000, 320 * (block + 1), overflow, 16000);
  };
  for (std::int64_t block = 0; block <= 500; ++block) EXPECT_EQ(lost(block, 0, false), 0u);  // 10 s: a period
  EXPECT_EQ(lost(501, 500, false), 0u);
  EXPECT_EQ(lost(502, 500, true), 8000u);  // the host reports an overflow: the callback was not merely late
}

TEST(CaptureBuffer, CallbackGivesWayToAnotherProducer) {
  CaptureBuffer buffer(64);
  const auto callback = buffer.callback(0, 1, 16000);
  const std::vector<float> in = ramp(0, 8);
  ASSERT_TRUE(buffer.producer.try_enter());
  callback.function(in.data(), nullptr, 8, nullptr, 0, callback.user_data);
  buffer.producer.leave();
  EXPECT_EQ(buffer.ring.num_written(), 0u);
  EXPECT_EQ(buffer.num_input_overflows(), 1);
}

TEST(CaptureBuffer, ChannelsAreChecked) {
  CaptureBuffer buffer(64);
  EXPECT_THROW(buffer.callback(0, 0, 16000), std::invalid_argument);
  EXPECT_THROW(buffer.callback(2, 2, 16000), std::invalid_argument);
  EXPECT_THROW(buffer.callback(-1, 2, 16000), std::invalid_argument);
  EXPECT_THROW(buffer.callback(1, 2, 0), std::invalid_argument);
  const void* user_data = buffer.callback(1, 2, 16000).user_data;
  EXPECT_EQ(buffer.callback(1, 2, 16000).user_data, user_data);
  EXPECT_NE(buffer.callback(0, 2, 16000).user_data, user_data);
  EXPECT_NE(buffer.callback(1, 2, 48000).user_data, user_data);
}

}  // namespace
}  // namespace asr_stream
