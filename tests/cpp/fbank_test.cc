#include "frontend/fbank.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "frontend/real_fft.h"

namespace asr_stream {
namespace {

std::vector<float> noise(std::size_t count, float amplitude = 0.1f) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, amplitude);
  std::vector<float> samples(count);
  for (float& sample : samples) sample = normal(random);
  return samples;
}

std::vector<float> all_frames(Fbank& fbank) {
  fbank.input_finished();
  std::vector<float> frames(static_cast<std::size_t>(fbank.num_frames_ready() * kNumBins));
  fbank.get_frames(0, fbank.num_frames_ready(), frames.data());
  return frames;
}

std::vector<float> whole(const std::vector<float>& samples) {
  Fbank fbank;
  fbank.accept_waveform(samples.data(), samples.size());
  return all_frames(fbank);
}

TEST(RealFft, PowerEqualsTheDefinition) {
  for (const int size : {32, 128, 512, 2048}) {
    const std::vector<float> values = noise(static_cast<std::size_t>(size), 1.0f);
    const std::vector<double> frame(values.begin(), values.end());
    std::vector<float> power(static_cast<std::size_t>(size / 2 + 1));
    RealFft fft(size);
    fft.power_spectrum(frame.data(), power.data());
    for (int k = 0; k <= size / 2; ++k) {
      std::complex<double> sum = 0.0;
      for (int n = 0; n < size; ++n) {
        sum += frame[static_cast<std::size_t>(n)] *
               std::polar(1.0, -2.0 * 3.14159265358979323846 * ((1LL * k * n) % size) / size);
      }
      EXPECT_NEAR(power[static_cast<std::size_t>(k)], std::norm(sum), 1e-6 * size) << "size " << size << " bin " << k;
    }
  }
}

TEST(Fbank, AnySplitGivesTheSameBits) {
  const std::vector<float> samples = noise(20000);
  const std::vector<float> expected = whole(samples);
  std::minstd_rand random(3);
  for (int split = 0; split < 200; ++split) {
    Fbank fbank;
    const std::size_t longest = split == 0 ? 1 : std::size_t{1} << (1 + split % 14);
    for (std::size_t at = 0; at < samples.size();) {
      const std::size_t count = split == 0 ? 1 : std::min(random() % longest, samples.size() - at);
      fbank.accept_waveform(samples.data() + at, count);
      at += count;
    }
    ASSERT_EQ(all_frames(fbank), expected) << "split " << split;
  }
}

TEST(Fbank, ShortInputs) {
  for (std::size_t count = 0; count <= 1000; ++count) {
    const std::vector<float> samples = noise(count);
    const std::vector<float> frames = whole(samples);
    ASSERT_EQ(frames.size(), (count + 80) / 160 * 80);
    for (const float value : frames) ASSERT_TRUE(std::isfinite(value));
  }
}

TEST(Fbank, HostileSamplesBecomeSilence) {
  const float values[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()};
  std::vector<float> bad = noise(4000), clean = bad;
  for (std::size_t i = 0; i < 4; ++i) {
    bad[1000 + i] = values[i];
    clean[1000 + i] = 0.0f;
  }
  Fbank fbank;
  fbank.accept_waveform(bad.data(), bad.size());
  EXPECT_EQ(all_frames(fbank), whole(clean));
  EXPECT_EQ(fbank.num_nonfinite_samples(), 4);
  for (const float value : whole(std::vector<float>(4000, Fbank::kMaxMagnitude))) EXPECT_TRUE(std::isfinite(value));
}

TEST(Fbank, DiscardKeepsTheRest) {
  const std::vector<float> samples = noise(160000);
  const std::vector<float> expected = whole(samples);
  Fbank fbank;
  std::vector<float> frame(80);
  std::int64_t next = 0;
  for (std::size_t at = 0; at < samples.size(); at += 1600) {
    fbank.accept_waveform(samples.data() + at, 1600);
    for (; next < fbank.num_frames_ready(); ++next) {
      fbank.get_frames(next, 1, frame.data());
      ASSERT_TRUE(std::equal(frame.begin(), frame.end(), expected.begin() + next * 80));
    }
    fbank.discard_frames(next - std::min<std::int64_t>(next, 3));
  }
  EXPECT_EQ(fbank.first_frame(), next - 3);
  EXPECT_THROW(fbank.get_frames(next - 4, 1, frame.data()), std::invalid_argument);
  EXPECT_THROW(fbank.get_frames(next, 1, frame.data()), std::invalid_argument);
  EXPECT_THROW(fbank.get_frames(next - 1, std::numeric_limits<std::int64_t>::max(), frame.data()),
               std::invalid_argument);
  EXPECT_THROW(fbank.discard_frames(next + 1), std::invalid_argument);
  EXPECT_THROW(fbank.discard_frames(-1), std::invalid_argument);
  fbank.input_finished();
  EXPECT_THROW(fbank.accept_waveform(samples.data(), 1), std::invalid_argument);
}

// They stay in memory until more than half of it is unused.
TEST(Fbank, DiscardedFramesAreGoneAtOnce) {
  const std::vector<float> samples = noise(16000);
  Fbank fbank;
  fbank.accept_waveform(samples.data(), samples.size());
  fbank.discard_frames(2);
  std::vector<float> frame(80);
  EXPECT_THROW(fbank.get_frames(1, 1, frame.data()), std::invalid_argument);
  fbank.get_frames(2, 1, frame.data());
  EXPECT_TRUE(std::equal(frame.begin(), frame.end(), whole(samples).begin() + 2 * 80));
}

TEST(Fbank, PositionsGoPast32Bits) {
  const std::vector<float> samples = noise(4000);
  const auto features_after = [&](std::int64_t num_silent) {
    Fbank fbank(num_silent);
    for (std::size_t i = 0; i < samples.size(); i += 100) fbank.accept_waveform(samples.data() + i, 100);
    fbank.discard_frames(fbank.first_frame() + 2);
    fbank.input_finished();
    EXPECT_EQ(fbank.num_samples(), num_silent + 4000);
    EXPECT_EQ(fbank.num_frames_ready(), num_silent / 160 + 25);
    std::vector<float> features(20 * 80);
    fbank.get_frames(fbank.num_frames_ready() - 20, 20, features.data());
    return features;
  };
  Fbank silent;  // audio that is treated as silence has the features of silence
  const std::vector<float> zeros(1600, 0.0f);
  silent.accept_waveform(zeros.data(), zeros.size());
  EXPECT_EQ(silent.num_frames_ready(), Fbank(1600).num_frames_ready());
  silent.accept_waveform(samples.data(), samples.size());
  silent.input_finished();
  std::vector<float> expected(20 * 80);
  silent.get_frames(silent.num_frames_ready() - 20, 20, expected.data());
  EXPECT_EQ(features_after(1600), expected);
  for (const int bits : {31, 32, 40}) {
    EXPECT_EQ(features_after(((std::int64_t{1} << bits) / 160 - 10) * 160), expected) << bits;
  }
}

}  // namespace
}  // namespace asr_stream
