// The lattice of a search with recombination, compared with the scores of all sentences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "contract.h"
#include "search/ctc_prefix_beam_search.h"
#include "search/lm_fusion.h"
#include "small_lm.h"

namespace asr_stream {
namespace {

constexpr LmFusionOptions kLatticeWeights{0.7f, -0.5f, 1.0f, 0.0f};  // LM, word, unknown word, no priors
constexpr std::size_t kNumSlots = 4;                          // frames with a token; each is followed by a blank

// A word said as P is A or B; the others have one pronunciation each.
const std::string kTwoPhones("\3\0\0\0P\nT\0\0\0\1\1\x80\1\2\x80\x81\2\1\x81\1\x80\0\0\0\0", 26);

struct Search {
  std::shared_ptr<const NgramLm> lm;
  std::shared_ptr<const LmFusion> fusion;
  std::vector<std::string> units;  // of each token, without the boundary
  std::map<std::string, std::vector<std::int32_t>> lexicon;
};

Search over_phones() {
  const auto bytes = small_file(kTwoPhones);
  const auto lm = std::make_shared<const NgramLm>(bytes.data(), bytes.size());
  return {lm,
          std::make_shared<const LmFusion>(lm, std::vector<std::string>{"", "a"}, kLatticeWeights, nullptr,
                                           std::vector<std::string>{"P", "T"}),
          {"", "P", "P", "T", "T"},
          {{"P", {kA, kB}}, {"T", {kB}}, {"PT", {kAb}}}};
}

Search over_letters() {
  const auto bytes = small_file();
  const auto lm = std::make_shared<const NgramLm>(bytes.data(), bytes.size());
  const std::vector<std::string> tokens{"", "\xe2\x96\x81", "A", "B"};
  return {lm, std::make_shared<const LmFusion>(lm, tokens, kLatticeWeights), {"", "", "A", "B"},
          {{"A", {kA}}, {"B", {kB}}, {"AB", {kAb}}}};
}

std::vector<std::string> words_of(const Search& search, const std::vector<std::int32_t>& tokens) {
  std::vector<std::string> words(1);
  for (const std::int32_t token : tokens) {
    if (search.fusion->begins_word(token)) words.emplace_back();
    words.back() += search.units[static_cast<std::size_t>(token)];
  }
  words.erase(std::remove(words.begin(), words.end(), ""), words.end());
  return words;
}

// What tells sentences apart: their words in a search over phones, otherwise their spelling.
using Key = std::pair<std::vector<std::int32_t>, std::vector<std::string>>;

// The best score of each sentence, from its definition.
std::map<Key, double> all_sentences(const Search& search, const std::vector<float>& rows, std::size_t num_tokens) {
  std::map<Key, double> found;
  const auto weight = static_cast<double>(kLatticeWeights.weight);
  for (int code = 0; code < static_cast<int>(std::pow(num_tokens - 1, kNumSlots)); ++code) {
    double log_prob = 0.0;
    std::vector<std::int32_t> tokens;
    for (std::size_t slot = 0, rest = static_cast<std::size_t>(code); slot < kNumSlots; ++slot) {
      tokens.push_back(static_cast<std::int32_t>(1 + rest % (num_tokens - 1)));
      rest /= num_tokens - 1;
      log_prob += static_cast<double>(rows[2 * slot * num_tokens + static_cast<std::size_t>(tokens.back())]);
    }
    // Each word may be any of those that are said so.
    struct Begun {
      std::vector<std::int32_t> ids;
      NgramLm::State state;
      double score;
    };
    std::vector<Begun> begun{{{}, search.lm->begin(), log_prob}};
    const std::vector<std::string> words = words_of(search, tokens);
    for (const std::string& word : words) {
      const auto entry = search.lexicon.find(word);
      const bool is_known = entry != search.lexicon.end();
      const std::vector<std::int32_t> unknown{search.lm->unknown()};
      std::vector<Begun> next;
      for (const Begun& before : begun) {
        for (const std::int32_t id : is_known ? entry->second : unknown) {
          Begun after = before;
          after.ids.push_back(id);
          after.score += weight * static_cast<double>(search.lm->advance(after.state, id)) +
                         static_cast<double>(kLatticeWeights.word_bonus) -
                         (is_known ? 0.0 : static_cast<double>(kLatticeWeights.oov_penalty));
          next.push_back(after);
        }
      }
      begun = next;
    }
    for (Begun& each : begun) {
      const float end = search.lm->advance(each.state, search.lm->end_of_sentence());
      each.score += weight * static_cast<double>(std::max(end, LmFusion::kPauseLogProb));
      const bool by_words = search.fusion->over_phones();
      const Key key = by_words ? Key{each.ids, {}} : Key{{}, words};
      const auto [place, is_new] = found.emplace(key, each.score);
      if (!is_new) place->second = std::max(place->second, each.score);
    }
  }
  return found;
}

// least: the log-probability of a blank in a slot, and of a token elsewhere; rest: what these add to a score.
void expect_all_likely_sentences(float least, double rest) {
  for (const Search& search : {over_phones(), over_letters()}) {
    const std::size_t num_tokens = search.fusion->num_tokens();
    int num_compared = 0;
    for (unsigned seed = 0; seed < 30; ++seed) {
      std::mt19937 random(seed);
      std::vector<float> rows(2 * kNumSlots * num_tokens, least);
      for (std::size_t slot = 0; slot < kNumSlots; ++slot) {
        for (std::size_t token = 1; token < num_tokens; ++token) {
          rows[2 * slot * num_tokens + token] = -0.01f * static_cast<float>(1 + random() % 400);
        }
        rows[(2 * slot + 1) * num_tokens] = 0.0f;
      }
      CtcPrefixBeamSearch lattice({64, 0, 0.0, true, true}, search.fusion);
      lattice.advance(rows.data(), 2 * kNumSlots, static_cast<std::int64_t>(num_tokens));
      const std::vector<Hypothesis> found = lattice.sentences(1000);
      const std::map<Key, double> all = all_sentences(search, rows, num_tokens);
      double best = -1e9;
      for (const auto& [key, score] : all) best = std::max(best, score);

      std::map<Key, double> scores;
      double before = best + rest;
      for (const Hypothesis& each : found) {
        EXPECT_LE(each.score(), before);
        before = each.score() + rest;
        const bool by_words = search.fusion->over_phones();
        const Key key = by_words ? Key{each.words, {}} : Key{{}, words_of(search, each.tokens)};
        EXPECT_TRUE(scores.emplace(key, each.score()).second) << seed;
        if (!all.count(key) || all.at(key) < best - 4.5) continue;  // of other frames, too
        EXPECT_NEAR(each.score(), all.at(key), rest) << seed;
        EXPECT_EQ(each.hotword_score, 0.0);
        if (least > -20.0f) continue;  // a token may be in another frame
        EXPECT_EQ(each.start_frames, (std::vector<std::int64_t>{0, 2, 4, 6}));
        EXPECT_EQ(each.end_frames, (std::vector<std::int64_t>{1, 3, 5, 7}));
      }
      for (const auto& [key, score] : all) {
        if (score < best - 4.5) continue;  // less likely ones may have been dropped on the way
        EXPECT_EQ(scores.count(key), 1u) << seed << " " << best - score;
        ++num_compared;
      }
      const Hypothesis first = lattice.hypotheses(1, true).front();
      EXPECT_NEAR(first.score(), best, rest) << seed;
      EXPECT_EQ(lattice.sentences(1).size(), 1u);
    }
    EXPECT_GT(num_compared, 200);
  }
}

TEST(Lattice, HasAllLikelySentencesWithTheirScores) { expect_all_likely_sentences(-30.0f, 1e-3); }

// The same two hypotheses then merge again and again, at costs that differ a little.
TEST(Lattice, AHypothesisMergesWhereItCostsLeast) { expect_all_likely_sentences(-9.0f, 0.5); }

std::vector<float> any_rows(unsigned seed, std::size_t num_frames, std::size_t num_tokens) {
  std::mt19937 random(seed);
  std::vector<float> rows(num_frames * num_tokens);
  for (float& log_prob : rows) log_prob = -0.01f * static_cast<float>(1 + random() % 400);
  return rows;
}

// Two hypotheses of the same future are one: the worse one could never win.
TEST(Lattice, RecombinationLosesNoBestSentence) {
  for (const Search& search : {over_phones(), over_letters()}) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      const std::size_t num_tokens = search.fusion->num_tokens();
      const std::vector<float> rows = any_rows(seed, 7, num_tokens);
      CtcPrefixBeamSearch merged({1024, 0, 0.0, true}, search.fusion), all({1024, 0}, search.fusion);
      merged.advance(rows.data(), 7, static_cast<std::int64_t>(num_tokens));
      all.advance(rows.data(), 7, static_cast<std::int64_t>(num_tokens));
      const Hypothesis best = all.hypotheses(1, true).front(), found = merged.hypotheses(1, true).front();
      EXPECT_NEAR(found.score(), best.score(), 0.7) << seed;  // without the paths of hypotheses that were dropped
    }
  }
}

// "BA" and "BB" are no words, so they have the same state of the language model. Another A can only follow "BB".
TEST(Lattice, HypothesesThatEndInOtherTokensHaveOtherFutures) {
  const Search search = over_letters();
  std::vector<float> rows(4 * 4, -20.0f);
  rows[3] = rows[4] = rows[12 + 2] = -0.01f;  // B, blank, A or B, A
  rows[8 + 2] = -0.7f;
  rows[8 + 3] = -0.9f;
  CtcPrefixBeamSearch lattice({16, 0, 0.0, true, true}, search.fusion);
  lattice.advance(rows.data(), 4, 4);
  const std::vector<Hypothesis> found = lattice.sentences(2);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].tokens, (std::vector<std::int32_t>{3, 2}));
  EXPECT_EQ(found[1].tokens, (std::vector<std::int32_t>{3, 3, 2}));
  EXPECT_NEAR(found[0].score() - found[1].score(), 0.2, 1e-3);
}

TEST(Lattice, TokensOfASentenceFollowEachOther) {
  for (const Search& search : {over_phones(), over_letters()}) {
    std::size_t num_sentences = 0;
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::size_t num_tokens = search.fusion->num_tokens();
      const std::vector<float> rows = any_rows(seed, 14, num_tokens);
      CtcPrefixBeamSearch lattice({64, 0, 0.0, true, true}, search.fusion);
      lattice.advance(rows.data(), 14, static_cast<std::int64_t>(num_tokens));
      for (const Hypothesis& each : lattice.sentences(100)) {
        ++num_sentences;
        std::int64_t end = 0;
        for (std::size_t i = 0; i < each.tokens.size(); ++i) {
          EXPECT_GE(each.start_frames[i], end) << seed;
          end = each.end_frames[i];
          EXPECT_GT(end, each.start_frames[i]) << seed;
        }
      }
    }
    EXPECT_GT(num_sentences, 1000u);
  }
}

TEST(Lattice, KeepsWhatRecombinationDropsUntilTheSearchIsReset) {
  const Search search = over_letters();
  std::vector<float> rows;
  for (const int token : {2, 0, 1, 0, 3, 0, 1, 0, 3, 0, 1, 0, 3, 0}) {  // "A B B B"; the first may be B
    for (int each = 0; each < 4; ++each) rows.push_back(each == token ? -0.01f : -20.0f);
  }
  rows[3] = -0.5f;
  const auto found = [&](bool with_lattice) {
    CtcPrefixBeamSearch beam({32, 0, 0.0, true, with_lattice}, search.fusion);
    beam.advance(rows.data(), 14, 4);
    std::vector<Hypothesis> sentences = beam.sentences(2);
    beam.reset();
    EXPECT_EQ(beam.num_prefixes(), 0u);
    EXPECT_EQ(beam.num_histories(), 0u);
    EXPECT_EQ(beam.sentences(2).size(), 1u);
    EXPECT_TRUE(beam.sentences(2)[0].tokens.empty());
    return sentences;
  };
  const std::vector<Hypothesis> sentences = found(true);
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_EQ(sentences[0].tokens, (std::vector<std::int32_t>{2, 1, 3, 1, 3, 1, 3}));
  EXPECT_EQ(sentences[1].tokens, (std::vector<std::int32_t>{3, 1, 3, 1, 3, 1, 3}));
  EXPECT_EQ(sentences[1].start_frames, (std::vector<std::int64_t>{0, 2, 4, 6, 8, 10, 12}));
  EXPECT_NEAR(sentences[0].log_prob - sentences[1].log_prob, 0.49, 1e-3);
  // <s> A: -0.5, "A B" after it: -0.5 - 1.5; <s> B: -0.4 - 2.5, B B: the back-off of B is 0 and -2.5
  EXPECT_NEAR(sentences[0].lm_score - sentences[1].lm_score, 0.7 * (-0.5 - 2.0 + 2.9 + 2.5), 1e-3);
  EXPECT_EQ(found(false).size(), 1u);
}

}  // namespace
}  // namespace asr_stream
