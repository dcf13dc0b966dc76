// Words with times and confidences, by hand.
#include "search/words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "small_lm.h"

namespace asr_stream {
namespace {

const std::vector<std::string> kTokens{"", "<unk>", "", "\xe2\x96\x81", "A", "B", "\xe2\x96\x81" "C"};
constexpr ConfidenceMap kMap{-1.0, 2.0, 3.0, 0.5};

// A token with its frames and its confidence.
struct Token {
  std::int32_t id;
  std::int64_t start, end;
  float confidence = 0.5f;
};

Hypothesis hypothesis(const std::vector<Token>& tokens) {
  Hypothesis result;
  for (const Token& token : tokens) {
    result.tokens.push_back(token.id);
    result.start_frames.push_back(token.start);
    result.end_frames.push_back(token.end);
    result.confidences.push_back(token.confidence);
  }
  return result;
}

double frame_s(std::int64_t frame) { return 0.04 * static_cast<double>(frame); }

double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST(Words, AreTheTokensBetweenBoundaries) {
  const auto found = words(hypothesis({{3, 10, 11}, {4, 11, 12}, {5, 12, 13}, {3, 14, 15}, {3, 15, 16}, {6, 20, 21},
                                       {2, 22, 23}, {4, 24, 25}, {3, 30, 31}}),
                           kTokens, kMap);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].text, "AB");
  EXPECT_EQ(found[1].text, "CA");
  EXPECT_EQ(join(found), "AB CA");
  EXPECT_TRUE(words({}, kTokens, kMap).empty());
  EXPECT_THROW(words(hypothesis({{7, 0, 1}}), kTokens, kMap), std::invalid_argument);
  EXPECT_THROW(words(hypothesis({{-1, 0, 1}}), kTokens, kMap), std::invalid_argument);
}

// After a pause a word begins 2 frames before its first token; before a pause it ends 1 frame before the end of its
// last token. In fluent speech (at most 3 frames apart) it ends 2 frames before, where the next one begins.
TEST(Words, TimesAreCorrectedByTheDelayOfTheTokens) {
  const auto found = words(hypothesis({{6, 10, 12}, {4, 13, 15}, {6, 18, 19}, {6, 23, 30}}), kTokens, kMap);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_DOUBLE_EQ(found[0].start_s, frame_s(8));
  EXPECT_DOUBLE_EQ(found[0].end_s, frame_s(13));
  EXPECT_DOUBLE_EQ(found[1].start_s, frame_s(13));
  EXPECT_DOUBLE_EQ(found[1].end_s, frame_s(18));
  EXPECT_DOUBLE_EQ(found[2].start_s, frame_s(21));
  EXPECT_DOUBLE_EQ(found[2].end_s, frame_s(29));
}

TEST(Words, NoneBeginsBeforeTheUtteranceOrTheEndOfTheOneBefore) {
  const auto found = words(hypothesis({{6, 51, 52}, {6, 52, 53}, {6, 57, 58}, {6, 62, 63}}), kTokens, kMap, {1600, 50});
  ASSERT_EQ(found.size(), 4u);
  const double start_s = 0.1;  // of frame 0
  EXPECT_DOUBLE_EQ(found[0].start_s, start_s + frame_s(50));
  EXPECT_DOUBLE_EQ(found[0].end_s, start_s + frame_s(51));  // a frame at least
  EXPECT_DOUBLE_EQ(found[1].start_s, start_s + frame_s(51));
  EXPECT_DOUBLE_EQ(found[1].end_s, start_s + frame_s(52));
  EXPECT_DOUBLE_EQ(found[2].start_s, start_s + frame_s(55));
  EXPECT_DOUBLE_EQ(found[2].end_s, start_s + frame_s(57));
}

TEST(Words, ConfidenceIsALogisticFunctionOfTheLeastAndTheMean) {
  const auto found =
      words(hypothesis({{6, 10, 12, 0.9f}, {4, 13, 15, 0.2f}, {5, 16, 18, 0.7f}, {6, 40, 41, 1.0f}}), kTokens, kMap);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NEAR(found[0].confidence, logistic(-1.0 + 2.0 * 0.2 + 3.0 * 0.6), 1e-6);
  EXPECT_NEAR(found[1].confidence, logistic(-1.0 + 2.0 + 3.0), 1e-6);
}

// A search over phones, in which P is A, or B if that was found, and T is in no word.
struct Phones {
  std::shared_ptr<const NgramLm> lm;
  std::shared_ptr<const LmFusion> fusion;
};

Phones phones() {
  const std::string two("\3\0\0\0P\nT\0\0\0\1\1\x80\0\1\1\x80\0\0\0\0", 21);
  const auto bytes = small_file(two);
  const auto lm = std::make_shared<const NgramLm>(bytes.data(), bytes.size());
  return {lm, std::make_shared<const LmFusion>(lm, std::vector<std::string>{"", "a"}, LmFusionOptions(), nullptr,
                                               std::vector<std::string>{"P", "T"})};
}

constexpr std::int32_t kBeginsP = 1, kBeginsT = 3;

Calibration calibration() {
  Calibration result;
  result.confidence_with_phones = {-1.0, 2.0, 3.0};
  result.confidence_with_posteriors = {1.0, 0.0, 0.0, 0.5};
  return result;
}

TEST(WordsOverPhones, KnownWordsHaveTheTextOfTheLexiconAndOthersTheirLetters) {
  const Phones over = phones();
  Hypothesis found = hypothesis({{kBeginsP, 10, 12}, {kBeginsT, 20, 23}, {kBeginsP, 30, 31}});
  found.words = {kA, kUnknown, kB};
  // The letters of the second word begin at a boundary near its phones, and end six frames behind them.
  const Hypothesis letters = hypothesis({{6, 9, 10}, {4, 12, 13}, {6, 22, 23}, {5, 24, 25}, {4, 26, 27},
                                         {5, 29, 30}, {6, 31, 32}});
  const auto shown = words(found, *over.fusion, letters, kTokens, calibration());
  EXPECT_EQ(join(shown), "A CBA B");
  EXPECT_NEAR(shown[0].confidence, logistic(-1.0 + 2.0 * 0.5 + 3.0 * 0.5), 1e-6);
  EXPECT_DOUBLE_EQ(shown[1].start_s, frame_s(18));

  // Without a boundary nearby: from the middle between the phones of two words to the next middle.
  const Hypothesis joined = hypothesis({{4, 15, 16}, {5, 16, 17}, {4, 24, 25}, {5, 25, 26}, {4, 26, 27}});
  EXPECT_EQ(words(found, *over.fusion, joined, kTokens, calibration())[1].text, "BAB");
  // Alone: six frames around its phones.
  Hypothesis alone = hypothesis({{kBeginsT, 20, 21}});
  alone.words = {kUnknown};
  const Hypothesis around = hypothesis({{5, 13, 14}, {4, 14, 15}, {5, 26, 27}, {4, 27, 28}});
  EXPECT_EQ(words(alone, *over.fusion, around, kTokens, calibration())[0].text, "AB");
}

TEST(WordsOverPhones, WordsWithoutLettersAndIncompleteOnesAreOmitted) {
  const Phones over = phones();
  Hypothesis found = hypothesis({{kBeginsT, 10, 11}, {kBeginsP, 30, 31}, {kBeginsT, 50, 51}});
  found.words = {kUnknown, kA, LmFusion::kNoWord};
  const auto shown = words(found, *over.fusion, hypothesis({{4, 50, 51}}), kTokens, calibration());
  EXPECT_EQ(join(shown), "A");
  found.words = {kA};
  EXPECT_THROW(words(found, *over.fusion, {}, kTokens, calibration()), std::invalid_argument);
}

TEST(WordsOverPhones, PosteriorsSetTheConfidence) {
  const Phones over = phones();
  Hypothesis found = hypothesis({{kBeginsP, 10, 11}, {kBeginsP, 20, 21}, {kBeginsP, 30, 31}});
  found.words = {kA, kB, kA};
  found.word_posteriors = {0.8f, 0.0f, 1.0f};
  const auto shown = words(found, *over.fusion, {}, kTokens, calibration());
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_NEAR(shown[0].confidence, logistic(1.0 + 0.5 * std::log(4.0)), 1e-5);
  EXPECT_NEAR(shown[1].confidence, logistic(1.0 - 0.5 * 5.0), 1e-5);
  EXPECT_NEAR(shown[2].confidence, logistic(1.0 + 0.5 * 5.0), 1e-5);
}

TEST(Words, AreJoinedByOneSpaceOrTheirLineBreaks) {
  const auto joined = [](const std::vector<std::string>& texts) {
    std::vector<Word> found;
    for (const std::string& text : texts) found.push_back({text, 0.0, 0.0, 0.5f});
    return join(found);
  };
  EXPECT_EQ(joined({}), "");
  EXPECT_EQ(joined({"a", "b"}), "a b");
  EXPECT_EQ(joined({"a.\n", "b", "\nc", "d"}), "a.\nb\nc d");
}

TEST(Words, AlikeAtTheBeginning) {
  const auto count = [](const std::string& a, const std::string& b) {
    std::vector<Word> lists[2];
    for (const char c : a) lists[0].push_back({std::string(1, c), 0.0, 1.0, 0.5f});
    for (const char c : b) lists[1].push_back({std::string(1, c), 2.0, 3.0, 0.6f});
    return num_alike(lists[0], lists[1]);
  };
  EXPECT_EQ(count("abc", "abd"), 2u);
  EXPECT_EQ(count("ab", "abd"), 2u);
  EXPECT_EQ(count("xbc", "abc"), 0u);
  EXPECT_EQ(count("", "a"), 0u);
}

Hypothesis scored(double log_prob, double lm_score, double hotword_score) {
  Hypothesis result;
  result.log_prob = log_prob;
  result.lm_score = lm_score;
  result.hotword_score = hotword_score;
  return result;
}

TEST(BestRescored, WeighsTheFirstPassAndTheDecoder) {
  const std::vector<Hypothesis> both{scored(-10.0, -2.0, 0.0), scored(-13.0, -1.0, 0.0)};  // -12 and -14
  EXPECT_EQ(best_rescored(both, {-5.0f, -3.5f}, 0.5), 0u);
  EXPECT_EQ(best_rescored(both, {-5.0f, -2.5f}, 0.5), 1u);
  EXPECT_EQ(best_rescored(both, {-5.0f, -1.0f}, 0.7), 0u);
  EXPECT_EQ(best_rescored(both, {-5.0f, -0.1f}, 0.7), 1u);
  EXPECT_EQ(best_rescored(both, {-5.0f, -0.1f}, 1.0), 0u);
  EXPECT_EQ(best_rescored(both, {-5.0f, -4.9f}, 0.0), 1u);
  EXPECT_EQ(best_rescored(both, {-5.0f, -3.0f}, 0.5), 0u);  // a tie
}

TEST(BestRescored, OnlyHypothesesWithTheBoostOfTheBestCanWin) {
  const std::vector<Hypothesis> hypotheses{scored(-9.0, 0.0, 0.0), scored(-10.0, 0.0, 3.0), scored(-11.0, 0.0, 3.0)};
  EXPECT_EQ(best_rescored(hypotheses, {0.0f, -50.0f, -60.0f}, 0.5), 1u);
  EXPECT_EQ(best_rescored(hypotheses, {0.0f, -50.0f, -40.0f}, 0.5), 2u);
}

TEST(BestRescored, OddInputIsRefused) {
  EXPECT_THROW(best_rescored({}, {}, 0.5), std::invalid_argument);
  EXPECT_THROW(best_rescored({scored(-1.0, 0.0, 0.0)}, {}, 0.5), std::invalid_argument);
  EXPECT_THROW(best_rescored({scored(-1.0, 0.0, 0.0)}, {-1.0f}, 1.1), std::invalid_argument);
}

TEST(SetWords, GivesTheIdsOfTheWords) {
  WordIds ids(nullptr);
  Hypothesis found = hypothesis({{6, 1, 2}, {4, 2, 3}, {6, 3, 4}, {3, 4, 5}, {4, 5, 6}, {6, 7, 8}, {4, 8, 9}});
  found.words = {99};
  set_words(found, kTokens, ids);
  ASSERT_EQ(found.words.size(), 4u);
  EXPECT_EQ(ids.text(found.words[0]), "CA");
  EXPECT_EQ(ids.text(found.words[1]), "C");
  EXPECT_EQ(ids.text(found.words[2]), "A");
  EXPECT_EQ(found.words[3], found.words[0]);
}

}  // namespace
}  // namespace asr_stream
