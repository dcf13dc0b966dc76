// Forced alignment of texts that the audio follows exactly or not, on frames with known tokens.
#include "search/alignment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace asr_stream {
namespace {

constexpr std::int64_t kVocabSize = 8;
constexpr DifferenceCosts kExact{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
constexpr DifferenceCosts kCosts{4.0, 1.0};

// Near certainty for one token in each frame; 0 is the blank.
std::vector<float> frames(const std::vector<std::int32_t>& tokens) {
  std::vector<float> result(tokens.size() * kVocabSize, std::log(0.01f));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    result[i * kVocabSize + static_cast<std::size_t>(tokens[i])] = std::log(0.93f);
  }
  return result;
}

TextAlignment align(const std::vector<std::int32_t>& tokens, const std::vector<Spellings>& words,
                    const DifferenceCosts& costs = kCosts) {
  const std::vector<float> rows = frames(tokens);
  return align_text(rows.data(), static_cast<std::int64_t>(tokens.size()), kVocabSize, words, costs);
}

using Frames = std::vector<std::int64_t>;
using Spans = std::vector<std::pair<std::int64_t, std::int64_t>>;

TEST(Alignment, ChoosesTheSpellingThatWasSaid) {
  const auto found = align({0, 1, 2, 2, 0, 3, 4, 5, 0}, {{{1, 3}, {1, 2}}, {{3, 4, 5}, {3, 5}}});
  EXPECT_EQ(found.spellings, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(found.hypothesis.tokens, (std::vector<std::int32_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(found.hypothesis.start_frames, (Frames{1, 2, 5, 6, 7}));
  EXPECT_EQ(found.hypothesis.end_frames, (Frames{2, 4, 6, 7, 8}));
  EXPECT_NEAR(found.hypothesis.confidences[1], 0.93f, 1e-5f);
  EXPECT_NEAR(found.hypothesis.log_prob, 9 * std::log(0.93), 1e-5);
  EXPECT_TRUE(found.others.empty());
}

TEST(Alignment, SkipsWordsAndFindsOtherSpeech) {
  const std::vector<Spellings> words{{{1, 2}}, {{3, 4, 5}}, {{6}}};
  const auto skipped = align({1, 2, 0, 6, 0}, words);
  EXPECT_EQ(skipped.spellings, (std::vector<std::int32_t>{0, kSkipped, 0}));
  EXPECT_TRUE(skipped.others.empty());
  EXPECT_NEAR(skipped.hypothesis.log_prob, 5 * std::log(0.93) - 4.0, 1e-5);

  const auto replaced = align({1, 2, 0, 7, 0, 7, 1, 0, 6}, words);
  EXPECT_EQ(replaced.spellings, (std::vector<std::int32_t>{0, kSkipped, 0}));
  EXPECT_EQ(replaced.others, (Spans{{3, 7}}));
  EXPECT_EQ(replaced.hypothesis.start_frames, (Frames{0, 1, 8}));

  const auto at_the_ends = align({7, 7, 1, 2, 3, 4, 5, 6, 0, 7}, words);
  EXPECT_EQ(at_the_ends.spellings, (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(at_the_ends.others, (Spans{{0, 2}, {9, 10}}));

  const auto none = align({0, 0, 0}, words);
  EXPECT_EQ(none.spellings, (std::vector<std::int32_t>(3, kSkipped)));
  EXPECT_TRUE(none.hypothesis.tokens.empty());
  EXPECT_EQ(align({}, words).spellings, (std::vector<std::int32_t>(3, kSkipped)));
}

TEST(Alignment, EqualTokensOfTwoWordsHaveABlankBetweenThem) {
  const std::vector<Spellings> words{{{1}}, {{1}}};
  EXPECT_EQ(align({1, 0, 1}, words, kExact).hypothesis.start_frames, (Frames{0, 2}));
  EXPECT_EQ(align({1, 1, 1}, words, kExact).hypothesis.start_frames, (Frames{0, 2}));
  EXPECT_THROW(align({1, 1}, words, kExact), std::invalid_argument);
  const auto unequal = align({1, 1, 2}, {{{1}, {1, 3}}, {{1}, {2}}}, kExact);
  EXPECT_EQ(unequal.spellings, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(unequal.hypothesis.start_frames, (Frames{0, 2}));
}

TEST(Alignment, AWordWithoutSpellingsIsAnySpeech) {
  const auto found = align({0, 1, 2, 0, 5, 0, 6, 7, 0, 0, 3, 4, 0}, {{{1, 2}}, {}, {{3, 4}}});
  EXPECT_EQ(found.spellings, (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(found.hypothesis.tokens, (std::vector<std::int32_t>{1, 2, kAnySpeech, 3, 4}));
  EXPECT_EQ(found.hypothesis.start_frames, (Frames{1, 2, 4, 10, 11}));
  EXPECT_EQ(found.hypothesis.end_frames, (Frames{2, 3, 8, 11, 12}));
  EXPECT_TRUE(found.others.empty());
}

TEST(Alignment, OfTokensIsThatOfOneWord) {
  const std::vector<float> rows = frames({0, 1, 1, 0, 1, 2});
  const Hypothesis found = align_tokens(rows.data(), 6, kVocabSize, {1, 1, 2}, 100);
  EXPECT_EQ(found.tokens, (std::vector<std::int32_t>{1, 1, 2}));
  EXPECT_EQ(found.start_frames, (Frames{101, 104, 105}));
  EXPECT_EQ(found.end_frames, (Frames{103, 105, 106}));
  EXPECT_THROW(align_tokens(rows.data(), 6, kVocabSize, {}), std::invalid_argument);
  EXPECT_THROW(align_tokens(rows.data(), 6, kVocabSize, {1, 1, 1, 1}), std::invalid_argument);
}

TEST(Alignment, RefusesWhatCannotBeAligned) {
  EXPECT_THROW(align({1}, {{{8}}}), std::invalid_argument);
  EXPECT_THROW(align({1}, {{{-1}}}), std::invalid_argument);
  EXPECT_THROW(align({1}, {{{1}, {}}}), std::invalid_argument);
  EXPECT_THROW(align({1}, {{{1}}}, {-1.0, 1.0}), std::invalid_argument);
  EXPECT_THROW(align({1}, {{{1}}}, {1.0, std::nan("")}), std::invalid_argument);
  EXPECT_THROW(align({1}, {{{1, 2}}}, kExact), std::invalid_argument);
  EXPECT_THROW(align({}, {{{1}}}, kExact), std::invalid_argument);
}

}  // namespace
}  // namespace asr_stream
