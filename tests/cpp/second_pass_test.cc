#include "second_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "contract.h"

namespace asr_stream {
namespace {

// A second of a tone at 4 kHz.
Fbank tone() {
  std::vector<float> samples(16000);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = std::sin(1.5707963f * static_cast<float>(i % 4) + 0.5f);
  }
  Fbank fbank;
  fbank.accept_waveform(samples.data(), samples.size());
  return fbank;
}

TEST(SecondPass, EveryPassCountsTheSame) {
  const Fbank fbank = tone();
  const std::vector<float> first{std::log(0.5f), std::log(0.5f)}, of_pass{std::log(0.9f), std::log(0.1f)};
  SecondPass pass(0, 16);
  pass.append(first.data(), 2, nullptr, 0, false);
  while (pass.next(fbank, 0, true)) pass.add({of_pass.data(), 1, 2}, {}, 1);
  EXPECT_EQ(pass.num_done(), 1);
  const std::vector<float> mean = pass.mean_of(0).letters;
  EXPECT_NEAR(mean[0] - mean[1], 3 * std::log(9.0) / 4, 1e-5);
}

TEST(SecondPass, TheSecondPassReadsLowerFrequencies) {
  const Fbank fbank = tone();
  const std::vector<float> rows(4 * 2, std::log(0.5f));
  SecondPass pass(0, 16);
  for (int frame = 0; frame < 4; ++frame) pass.append(rows.data(), 2, nullptr, 0, false);
  std::vector<std::ptrdiff_t> peaks;  // the loudest bin of each pass
  while (const std::optional<EncoderStep> step = pass.next(fbank, 0, true)) {
    const auto row = step->features.begin() + 8 * kNumBins;
    peaks.push_back(std::max_element(row, row + kNumBins) - row);
    pass.add({rows.data(), 4, 2}, {}, 4);
  }
  ASSERT_EQ(peaks.size(), 3u);
  EXPECT_LT(peaks[1], peaks[0]);
  EXPECT_EQ(peaks[2], peaks[0]);
}

// Log-probabilities of two tokens whose difference is this.
std::vector<float> pair_of(double difference) {
  const double first = -std::log1p(std::exp(-difference));
  return {static_cast<float>(first), static_cast<float>(first - difference)};
}

// What the encoder gives for `num_frames` frames: rows that differ, by 0.1 for each.
std::vector<float> rows_of(double first, std::int64_t num_frames) {
  std::vector<float> rows;
  for (std::int64_t frame = 0; frame < num_frames; ++frame) {
    const std::vector<float> row = pair_of(first + 0.1 * static_cast<double>(frame));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

TEST(SecondPass, EncodesWindowsOfTheUtteranceWithOneCacheEach) {
  std::mt19937 generator(1);
  std::vector<float> samples(16000);
  for (float& sample : samples) sample = std::uniform_real_distribution<float>(-0.5f, 0.5f)(generator);
  Fbank fbank;
  fbank.accept_waveform(samples.data(), samples.size());
  const auto expect_features = [&](const EncoderStep& step, std::int64_t row, std::int64_t first, std::int64_t count) {
    std::vector<float> wanted(static_cast<std::size_t>(count * kNumBins));
    fbank.get_frames(first, count, wanted.data());
    const auto begin = step.features.begin() + row * kNumBins;
    EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), begin));
  };
  constexpr std::int64_t kStart = 6, kWindow = 4, kContext = 2;  // encoder frames
  SecondPass second(kStart, kWindow);
  for (int frame = 0; frame < 6; ++frame) {
    EXPECT_EQ(second.is_due(), frame == 5);
    const std::vector<float> letters = pair_of(0.1 * frame), phones = pair_of(-0.1 * frame);
    second.append(letters.data(), 2, phones.data(), 2, false);
  }
  EXPECT_FALSE(second.has_begun());

  for (std::size_t pass = 0; pass < kNumPasses; ++pass) {  // the first window
    const std::int64_t context = pass ? 0 : kContext, shift = pass == 2 ? 2 : 0;
    const std::optional<EncoderStep> step = second.next(fbank, kContext, false);
    ASSERT_TRUE(step);
    EXPECT_EQ(step->slot, kFirstPassSlot + pass);
    EXPECT_TRUE(step->begins);
    EXPECT_FALSE(step->ends);
    EXPECT_EQ(step->num_frames, 4 * (kWindow + context) + 3);
    EXPECT_EQ(step->num_valid, step->num_frames);
    const std::int64_t first = 4 * (kStart - context);
    if (pass != 1) expect_features(*step, shift, first, step->num_frames - shift);  // pass 1 is another voice
    if (shift) expect_features(*step, 0, first, 1), expect_features(*step, 1, first, 1);
    const std::int64_t num_valid = kWindow + context;
    const std::vector<float> letters = rows_of(1.0 + static_cast<double>(pass), num_valid);
    const std::vector<float> phones = rows_of(-1.0, num_valid);
    EXPECT_EQ(second.add({letters.data(), num_valid, 2}, {phones.data(), num_valid, 2}, num_valid), context);
    EXPECT_TRUE(second.has_begun());
  }
  EXPECT_EQ(second.num_done(), kWindow);
  for (std::int64_t frame = 0; frame < kWindow; ++frame) {
    const HeadLogProbs mean = second.mean_of(frame);
    // Of 0, 1, 2 and 3; the first pass over the window began two rows earlier.
    EXPECT_NEAR(mean.letters[0] - mean.letters[1], 1.5 + 0.1 * static_cast<double>(frame) + 0.2 / 4, 1e-5) << frame;
    const double others = 3 * (-1.0 + 0.1 * static_cast<double>(frame)) + 0.2;
    EXPECT_NEAR(mean.phones[0] - mean.phones[1], (others - 0.1 * static_cast<double>(frame)) / 4, 1e-5) << frame;
  }

  EXPECT_FALSE(second.is_due());
  EXPECT_FALSE(second.next(fbank, kContext, false));
  for (std::size_t pass = 0; pass < kNumPasses; ++pass) {  // the rest, when the utterance is over
    const std::optional<EncoderStep> step = second.next(fbank, kContext, true);
    ASSERT_TRUE(step);
    EXPECT_EQ(step->slot, kFirstPassSlot + pass);
    EXPECT_FALSE(step->begins);
    EXPECT_TRUE(step->ends);
    EXPECT_EQ(step->num_frames, 4 * 2 + 3);
    if (pass != 1) expect_features(*step, 0, 4 * (kStart + kWindow) - (pass == 2 ? 2 : 0), step->num_valid);
    const std::vector<float> rows = rows_of(2.0, 2);
    EXPECT_EQ(second.add({rows.data(), 2, 2}, {rows.data(), 2, 2}, 2), 0);
  }
  EXPECT_EQ(second.num_done(), 6);
  EXPECT_FALSE(second.next(fbank, kContext, true));
  const HeadLogProbs last = second.mean_of(5);
  EXPECT_NEAR(last.letters[0] - last.letters[1], (0.5 + 3 * 2.1) / 4, 1e-5);
}

TEST(SecondPass, OnlyTheLastWindowNeedsItsCacheNoMore) {
  const Fbank fbank = tone();
  const std::vector<float> rows = rows_of(0.0, 4);
  SecondPass second(0, 4);
  for (int frame = 0; frame < 9; ++frame) second.append(rows.data(), 2, nullptr, 0, false);
  std::vector<std::pair<std::int64_t, bool>> windows;  // frames, and whether it is the last
  while (const std::optional<EncoderStep> step = second.next(fbank, 0, true)) {
    windows.emplace_back((step->num_frames - 3) / 4, step->ends);
    second.add({rows.data(), windows.back().first, 2}, {}, windows.back().first);
  }
  std::vector<std::pair<std::int64_t, bool>> expected(6, {4, false});
  expected.insert(expected.end(), 3, {1, true});
  EXPECT_EQ(windows, expected);
}

// A second pass over silence, speech, silence, of as many frames each.
SecondPass spoken(std::int64_t before, std::int64_t words, std::int64_t after, std::int64_t window) {
  SecondPass second(0, window);
  const std::vector<float> row = pair_of(0.0);
  for (std::int64_t frame = 0; frame < before + words + after; ++frame) {
    second.append(row.data(), 2, nullptr, 0, frame < before || frame >= before + words);
  }
  return second;
}

constexpr std::int64_t kMargin = SecondPass::kMargin;

TEST(SecondPass, SilenceAroundTheWordsIsNotEncodedAgain) {
  const Fbank fbank = tone();
  const std::int64_t before = kMargin + 3, words = 2, after = kMargin + 5, encoded = words + 2 * kMargin;
  SecondPass second = spoken(before, words, after, 50);
  const std::vector<float> rows = rows_of(1.0, encoded);
  for (std::size_t pass = 0; pass < kNumPasses; ++pass) {
    const std::optional<EncoderStep> step = second.next(fbank, 0, true);
    ASSERT_TRUE(step);
    EXPECT_TRUE(step->begins && step->ends);
    EXPECT_EQ(step->num_frames, 4 * encoded + 3);
    std::vector<float> wanted(kNumBins);
    fbank.get_frames(4 * 3 - (pass == 2 ? 2 : 0), 1, wanted.data());
    if (pass != 1) {  // another voice
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), step->features.begin()));
    }
    second.add({rows.data(), encoded, 2}, {}, encoded);
  }
  EXPECT_FALSE(second.next(fbank, 0, true));
  EXPECT_EQ(second.num_done(), before + words + after);
  const auto difference = [&](std::int64_t frame) {
    const HeadLogProbs mean = second.mean_of(frame);
    return mean.letters[0] - mean.letters[1];
  };
  EXPECT_NEAR(difference(2), 0.0, 1e-5);  // the first pass alone
  EXPECT_NEAR(difference(3), 3.0 / 4, 1e-5);
  EXPECT_NEAR(difference(3 + encoded - 1), 3 * (1.0 + 0.1 * static_cast<double>(encoded - 1)) / 4, 1e-5);
  EXPECT_NEAR(difference(3 + encoded), 0.0, 1e-5);
}

TEST(SecondPass, SilenceAfterAWindowNeedsNoRun) {
  const Fbank fbank = tone();
  const std::int64_t window = 2 + kMargin;
  SecondPass second = spoken(0, 2, 2 * kMargin, window);
  ASSERT_TRUE(second.is_due());
  const std::vector<float> rows = rows_of(1.0, window);
  while (second.next(fbank, 0, false)) second.add({rows.data(), window, 2}, {}, window);
  EXPECT_EQ(second.num_done(), window);
  EXPECT_FALSE(second.next(fbank, 0, true));
  EXPECT_EQ(second.num_done(), 2 + 2 * kMargin);
}

TEST(SecondPass, SilenceBeforeTheWordsMakesNoWindowDue) {
  SecondPass second = spoken(20 + kMargin, 5, 0, 20);
  EXPECT_FALSE(second.is_due());
  const std::vector<float> row = pair_of(0.0);
  for (std::int64_t frame = 0; frame < 6; ++frame) second.append(row.data(), 2, nullptr, 0, true);
  EXPECT_TRUE(second.is_due());
}

TEST(SecondPass, WordsThatNoFrameShowsAreEncodedWhole) {
  SecondPass second = spoken(30, 0, 0, 50);
  const std::optional<EncoderStep> step = second.next(tone(), 0, true);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->num_frames, 4 * 30 + 3);
}

TEST(SecondPass, ContextBeforeTheUtteranceKeepsTheSilenceAfterIt) {
  SecondPass second(4, 50);
  const std::vector<float> row = pair_of(0.0);
  for (std::int64_t frame = 0; frame < kMargin + 3; ++frame) {
    second.append(row.data(), 2, nullptr, 0, frame < kMargin + 2);
  }
  const std::optional<EncoderStep> step = second.next(tone(), 4, true);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->num_frames, 4 * (4 + kMargin + 3) + 3);
}

}  // namespace
}  // namespace asr_stream
