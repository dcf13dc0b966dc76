#include "search/words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace asr_stream {
namespace {

Hypothesis said(std::vector<std::int32_t> words, double score) {
  Hypothesis result;
  result.words = std::move(words);
  result.log_prob = score - 3.0;  // all parts of a score have the same weight
  result.lm_score = 2.0;
  result.hotword_score = 1.0;
  return result;
}

TEST(Posteriors, WordPosteriorIsTheSumOverSentences) {
  std::vector<Hypothesis> sentences{said({7, 8, 9}, -10.0), said({7, 5, 8, 9}, -12.0), said({7, 8}, -14.0),
                                    said({9, 7, 8}, -15.0)};
  set_posteriors(sentences, 4, 2);
  double total = 0.0;
  for (const Hypothesis& each : sentences) total += each.posterior;
  EXPECT_NEAR(total, 1.0, 1e-6);
  EXPECT_GT(sentences[1].posterior, sentences[2].posterior);
  EXPECT_NEAR(std::log(sentences[0].posterior / sentences[1].posterior),
              std::log(sentences[1].posterior / sentences[2].posterior), 1e-5);
  ASSERT_EQ(sentences[0].word_posteriors.size(), 3u);
  EXPECT_NEAR(sentences[0].word_posteriors[0], 1.0, 1e-6);
  EXPECT_NEAR(sentences[0].word_posteriors[1], 1.0, 1e-6);
  EXPECT_NEAR(sentences[0].word_posteriors[2], 1.0 - sentences[2].posterior - sentences[3].posterior, 1e-6);
  ASSERT_EQ(sentences[1].word_posteriors.size(), 4u);
  EXPECT_NEAR(sentences[1].word_posteriors[1], sentences[1].posterior, 1e-6);
  EXPECT_TRUE(sentences[2].word_posteriors.empty());
}

TEST(PreferWords, ASentenceLosesForEachWordThatItLacks) {
  const std::vector<std::int32_t> stable{7, 8, 8};
  std::vector<Hypothesis> sentences{said({7, 9, 8}, -10.0), said({5, 7, 8, 8, 9}, -10.3),
                                    said({8, 7}, -10.4), said({}, -11.0),
                                    said({7, 8, 8, 6}, -11.0)};
  prefer_words(sentences, 4, stable, 0.4);
  const std::vector<std::pair<std::size_t, double>> expected{
      {5, -10.3}, {3, -10.4}, {2, -11.2}, {0, -12.2}, {4, -12.2}};
  for (std::size_t i = 0; i < 5; ++i) {  // the last one is not scored, so it stays below the others
    EXPECT_EQ(sentences[i].words.size(), expected[i].first) << i;
    EXPECT_NEAR(sentences[i].score(), expected[i].second, 1e-9) << i;
  }
}

TEST(Posteriors, ASentenceAloneIsCertain) {
  std::vector<Hypothesis> sentences{said({7}, -200.0)};
  set_posteriors(sentences, 1, 5);
  EXPECT_EQ(sentences[0].posterior, 1.0f);
  EXPECT_EQ(sentences[0].word_posteriors, std::vector<float>{1.0f});
}

TEST(Posteriors, UnscoredSentencesChangeNoOther) {
  std::vector<Hypothesis> scored{said({7, 8}, -10.0), said({7, 9}, -12.0)}, all = scored;
  for (int i = 0; i < 20; ++i) all.push_back(said({7, 8, 8}, -12.0));
  set_posteriors(scored, 2, 2);
  set_posteriors(all, 2, 3);
  double others = 0.0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i < 2) {
      EXPECT_EQ(all[i].posterior, scored[i].posterior);
      EXPECT_EQ(all[i].word_posteriors, scored[i].word_posteriors);
    } else {
      others += all[i].posterior;
      EXPECT_LE(all[i].posterior, all[i - 1].posterior);
    }
  }
  EXPECT_GT(others, 0.0);
  EXPECT_LT(others, all[0].posterior);
  ASSERT_EQ(all[2].word_posteriors.size(), 3u);
  EXPECT_NEAR(all[2].word_posteriors[2], all[2].posterior, 1e-6);  // only this sentence has the word
}

}  // namespace
}  // namespace asr_stream
