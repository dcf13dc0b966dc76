#include "frontend/resampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace asr_stream {
namespace {

constexpr double kPi = 3.14159265358979323846;

template <typename Sample>
std::vector<float> resample(const std::vector<Sample>& samples, std::int32_t rate, std::size_t push) {
  Resampler resampler(rate);
  std::vector<float> output;
  for (std::size_t begin = 0; begin < samples.size(); begin += push) {
    resampler.accept(samples.data() + begin, std::min(push, samples.size() - begin), output);
  }
  resampler.finish(output);
  return output;
}

std::vector<float> tone(double frequency, std::int32_t rate, double seconds) {
  std::vector<float> samples(static_cast<std::size_t>(seconds * rate));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<float>(std::sin(2 * kPi * frequency * static_cast<double>(i) / rate));
  }
  return samples;
}

double decibels(double ratio) { return 20.0 * std::log10(std::max(ratio, 1e-12)); }

// The largest difference from `expected(seconds)`, excluding both ends, which silence affects.
template <typename Expected>
double largest_error(const std::vector<float>& output, Expected expected) {
  double largest = 0.0;
  const std::size_t edge = 1600;
  for (std::size_t i = edge; i + edge < output.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(output[i]) - expected(static_cast<double>(i) / 16000.0)));
  }
  return largest;
}

const std::vector<std::int32_t> kRates = {1000,  4000,  7999,  8000,  11025, 12000,  22050,  24000,
                                          32000, 44100, 44101, 48000, 96000, 192000, 384000, 768000};

TEST(Resampler, ATonePassesInTimeAndInPhase) {
  for (const std::int32_t rate : kRates) {
    for (const double part : {0.01, 0.5, 0.9}) {
      const double frequency = part * std::min(rate, 16000) / 2;
      const std::vector<float> output = resample(tone(frequency, rate, 0.5), rate, 1000);
      EXPECT_NEAR(static_cast<double>(output.size()), 8000.0, rate < 16000 ? 16.0 : 1.0);
      const double error = largest_error(output, [&](double s) { return std::sin(2 * kPi * frequency * s); });
      EXPECT_LT(decibels(error), -90.0) << rate << " Hz, tone of " << frequency;
    }
  }
}

TEST(Resampler, RemovesAliases) {
  for (const std::int32_t rate : kRates) {
    if (rate <= 16000) continue;
    for (const double frequency : {8010.0, 8500.0, 0.45 * rate, 15999.0}) {
      if (frequency >= rate / 2.0 || frequency <= 8000.0) continue;
      const std::vector<float> output = resample(tone(frequency, rate, 0.5), rate, 1000);
      EXPECT_LT(decibels(largest_error(output, [](double) { return 0.0; })), -90.0) << rate << ", " << frequency;
    }
  }
}

TEST(Resampler, TheOutputDoesNotDependOnThePieces) {
  std::mt19937 generator(3);
  std::uniform_real_distribution<float> noise(-1.0f, 1.0f);
  for (const std::int32_t rate : kRates) {
    std::vector<float> samples(static_cast<std::size_t>(std::max(2000, rate / 10 + 7)));
    for (float& sample : samples) sample = noise(generator);
    const std::vector<float> whole = resample(samples, rate, samples.size());
    for (const std::size_t push : {1u, 7u, 1000u}) EXPECT_EQ(resample(samples, rate, push), whole) << rate;
  }
}

TEST(Resampler, OutputHasTheLengthOfTheInput) {
  for (const std::int32_t rate : kRates) {
    for (const std::size_t count : {0, 1, 2, 479, 48000}) {
      const std::vector<float> output = resample(std::vector<float>(count, 0.25f), rate, 480);
      EXPECT_EQ(static_cast<std::int64_t>(output.size()), std::llround(static_cast<double>(count) * 16000 / rate));
    }
  }
}

TEST(Resampler, AConstantStaysOneAndIntegersAreScaled) {
  for (const std::int32_t rate : kRates) {
    const auto count = static_cast<std::size_t>(rate);
    const std::vector<float> floats = resample(std::vector<float>(count, 0.25f), rate, 1000);
    EXPECT_LT(largest_error(floats, [](double) { return 0.25; }), 1e-6) << rate;
    EXPECT_EQ(resample(std::vector<std::int16_t>(count, 8192), rate, 1000), floats);
  }
}

TEST(Resampler, ReplacesAndCountsNonfiniteSamples) {
  std::vector<float> broken = tone(440.0, 48000, 0.2), mended = broken;
  broken[3000] = std::numeric_limits<float>::quiet_NaN();
  broken[3001] = -std::numeric_limits<float>::infinity();
  broken[3002] = 1.1e9f;
  std::fill_n(mended.begin() + 3000, 3, 0.0f);
  EXPECT_EQ(resample(broken, 48000, 100), resample(mended, 48000, 100));
  Resampler resampler(48000);
  std::vector<float> output;
  resampler.accept(broken.data(), broken.size(), output);
  EXPECT_EQ(resampler.num_nonfinite(), 3);
}

// The last sample of a segment between two rounded positions may be after its end.
TEST(Resampler, CanProduceOneSampleAfterTheEnd) {
  for (const std::int32_t rate : {8000, 44100, 192000}) {
    Resampler resampler(rate);
    const std::vector<float> input(1001, 0.5f);
    std::vector<float> output;
    resampler.accept(input.data(), input.size(), output);
    const auto beyond = static_cast<std::int64_t>(std::ceil(1001 * 16000.0 / rate)) + 1;
    resampler.finish(beyond, output);
    EXPECT_EQ(static_cast<std::int64_t>(output.size()), beyond) << rate;
  }
}

TEST(Resampler, BeginsAnewAfterTheEnd) {
  for (const std::int32_t rate : {8000, 44100, 47999}) {
    const std::vector<float> input = tone(440.0, rate, 0.2);
    Resampler resampler(rate);
    std::vector<float> first, second;
    for (std::vector<float>* output : {&first, &second}) {
      EXPECT_FALSE(resampler.has_begun());
      resampler.accept(input.data(), input.size(), *output);
      EXPECT_TRUE(resampler.has_begun());
      resampler.finish(*output);
    }
    EXPECT_EQ(first, second) << rate;
  }
}

}  // namespace
}  // namespace asr_stream
