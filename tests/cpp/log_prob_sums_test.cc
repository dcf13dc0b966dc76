#include "log_prob_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace asr_stream {
namespace {

// Normalizes log-probabilities so that the probabilities sum to 1.
std::vector<float> normalized(std::vector<float> row) {
  double total = 0.0;
  for (const float value : row) total += std::exp(value);
  for (float& value : row) value -= static_cast<float>(std::log(total));
  return row;
}

std::vector<float> random_row(std::int64_t num_tokens, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-20.0f, 0.0f);
  std::vector<float> row(static_cast<std::size_t>(num_tokens));
  for (float& value : row) value = uniform(generator);
  return normalized(row);
}

TEST(LogProbSums, KeepsWholeRowsOfSmallVocabularies) {
  constexpr std::int64_t kNumTokens = 512;
  const std::vector<float> first = random_row(kNumTokens, 1), second = random_row(kNumTokens, 2);
  LogProbSums sums;
  sums.append(second.data(), kNumTokens);
  sums.append(first.data(), kNumTokens);
  sums.add(1, second.data());
  std::vector<float> expected(first);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = (first[i] + second[i]) / 2;
  EXPECT_EQ(sums.mean(1, 2), normalized(expected));
  EXPECT_EQ(sums.num_bytes(), 2 * kNumTokens * 4);
}

TEST(LogProbSums, SharesTheRestOfLargeVocabularies) {
  constexpr std::int64_t kNumTokens = 513;
  constexpr auto kNumKept = static_cast<std::size_t>(LogProbSums::kNumKept);
  const std::vector<float> row = random_row(kNumTokens, 1);
  LogProbSums sums;
  sums.append(random_row(kNumTokens, 3).data(), kNumTokens);
  sums.append(row.data(), kNumTokens);
  const std::vector<float> mean = sums.mean(1, 1);
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return row[a] > row[b]; });
  double rest = 0.0;
  for (std::size_t i = kNumKept; i < order.size(); ++i) rest += std::exp(row[order[i]]);
  const double share = std::log(rest / static_cast<double>(order.size() - kNumKept));
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_NEAR(mean[order[i]], i < kNumKept ? row[order[i]] : share, 1e-5) << i;
  }
}

TEST(LogProbSums, AddsOtherPassesToTheTokensOfTheFirst) {
  constexpr std::size_t kNumTokens = 1000;
  std::vector<float> first(kNumTokens, -12.0f), second(kNumTokens, -12.0f);
  first[0] = second[0] = std::log(0.5f);
  first[1] = second[999] = std::log(0.4f);
  LogProbSums sums;
  sums.append(first.data(), kNumTokens);
  sums.add(0, second.data());
  const std::vector<float> mean = sums.mean(0, 2);
  EXPECT_EQ(std::max_element(mean.begin(), mean.end()) - mean.begin(), 0);
  EXPECT_NEAR(mean[1] - mean[0], (std::log(0.4f) - 12.0f) / 2 - std::log(0.5f), 1e-4);
  // Token 999 is likely only in the second pass, so its probability is part of the rest.
  const float share = std::log((0.4f + 743 * std::exp(-12.0f)) / 744);
  EXPECT_NEAR(mean[999] - mean[0], (-12.0f + share) / 2 - std::log(0.5f), 1e-4);
}

TEST(LogProbSums, BoundsTheMemoryOfAnyVocabulary) {
  LogProbSums sums;
  const std::vector<float> row = random_row(20000, 1);
  for (int frame = 0; frame < 10; ++frame) sums.append(row.data(), 20000);
  EXPECT_LE(sums.num_bytes(), 10 * 513 * 4);
}

TEST(LogProbSums, LimitsHowMuchOnePassCanExclude) {
  const std::vector<float> first{-0.0f, -INFINITY, -60.0f}, second{-0.0f, -1.0f, -1.0f};
  LogProbSums sums;
  sums.append(first.data(), 3);
  sums.add(0, second.data());
  const std::vector<float> mean = sums.mean(0, 2);
  EXPECT_EQ(mean[1], mean[2]);
}

TEST(LogProbSums, BoundsTheRestOfLargeVocabularies) {
  constexpr std::size_t kNumTokens = 1000;
  std::vector<float> first(kNumTokens, -INFINITY);
  first[0] = 0.0f;
  const std::vector<float> second(kNumTokens, -std::log(1000.0f));
  LogProbSums sums;
  sums.append(first.data(), kNumTokens);
  sums.add(0, second.data());
  const std::vector<float> mean = sums.mean(0, 2);
  for (const float value : mean) ASSERT_TRUE(std::isfinite(value));
  EXPECT_NEAR(mean[999] - mean[0], -30.0f, 1e-4);  // half of the bound, -60
}

}  // namespace
}  // namespace asr_stream
