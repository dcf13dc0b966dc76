#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "search/ctc_greedy_search.h"
#include "search/ctc_phrase_search.h"
#include "search/ctc_prefix_beam_search.h"

namespace asr_stream {
namespace {

using Tokens = std::vector<std::int32_t>;

std::vector<float> random_log_probs(int num_frames, int vocab_size, unsigned seed, float sharpness = 2.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, sharpness);
  std::vector<float> rows;
  for (int t = 0; t < num_frames; ++t) {
    std::vector<double> logits(static_cast<std::size_t>(vocab_size));
    double sum = 0.0;
    for (double& logit : logits) {
      logit = normal(random);
      sum += std::exp(logit);
    }
    for (const double logit : logits) rows.push_back(static_cast<float>(logit - std::log(sum)));
  }
  return rows;
}

struct Best {
  double prob = 0.0;           // sum over all alignments
  double best_path = 0.0;      // of the most likely alignment
  std::vector<int> alignment;  // the most likely one
};

std::map<Tokens, Best> brute_force(const std::vector<float>& rows, int num_frames, int vocab_size) {
  std::map<Tokens, Best> result;
  std::vector<int> path(static_cast<std::size_t>(num_frames), 0);
  for (;;) {
    double log_prob = 0.0;
    Tokens tokens;
    int previous = 0;
    for (int t = 0; t < num_frames; ++t) {
      const int token = path[static_cast<std::size_t>(t)];
      log_prob += rows[static_cast<std::size_t>(t * vocab_size + token)];
      if (token != 0 && token != previous) tokens.push_back(token);
      previous = token;
    }
    Best& best = result[tokens];
    best.prob += std::exp(log_prob);
    if (std::exp(log_prob) > best.best_path) {
      best.best_path = std::exp(log_prob);
      best.alignment = path;
    }
    int t = 0;
    while (t < num_frames && ++path[static_cast<std::size_t>(t)] == vocab_size) path[static_cast<std::size_t>(t++)] = 0;
    if (t == num_frames) return result;
  }
}

void expect_equal(const Hypothesis& a, const Hypothesis& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.log_prob, b.log_prob);
  EXPECT_EQ(a.start_frames, b.start_frames);
  EXPECT_EQ(a.end_frames, b.end_frames);
  EXPECT_EQ(a.confidences, b.confidences);
}

TEST(CtcPrefixBeamSearch, EqualsTheSumOverAllAlignments) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    const int vocab_size = 3 + static_cast<int>(seed % 2), num_frames = 1 + static_cast<int>(seed % 6);
    const std::vector<float> rows = random_log_probs(num_frames, vocab_size, seed);
    const auto expected = brute_force(rows, num_frames, vocab_size);
    CtcPrefixBeamSearch search({1024, 0});
    search.advance(rows.data(), num_frames, vocab_size);
    const auto hypotheses = search.hypotheses(1024);
    ASSERT_EQ(hypotheses.size(), std::min<std::size_t>(expected.size(), 1024));
    double previous = std::numeric_limits<double>::infinity();
    for (const Hypothesis& hypothesis : hypotheses) {
      const Best& best = expected.at(hypothesis.tokens);
      EXPECT_NEAR(hypothesis.log_prob, std::log(best.prob), 1e-9);
      EXPECT_LE(hypothesis.log_prob, previous);
      previous = hypothesis.log_prob;
      std::size_t token = 0;
      for (int t = 0; t < num_frames;) {
        const int current = best.alignment[static_cast<std::size_t>(t)];
        int end = t + 1;
        while (end < num_frames && best.alignment[static_cast<std::size_t>(end)] == current) ++end;
        if (current != 0) {
          double log_prob = 0.0;
          for (int u = t; u < end; ++u) log_prob += rows[static_cast<std::size_t>(u * vocab_size + current)];
          ASSERT_LT(token, hypothesis.tokens.size());
          EXPECT_EQ(hypothesis.start_frames[token], t);
          EXPECT_EQ(hypothesis.end_frames[token], end);
          EXPECT_NEAR(hypothesis.confidences[token], std::exp(log_prob / (end - t)), 1e-6);
          ++token;
        }
        t = end;
      }
      EXPECT_EQ(token, hypothesis.tokens.size());
    }
  }
}

// max_tokens_per_frame = 0 prunes only tokens that cannot be in the result.
TEST(CtcPrefixBeamSearch, PruningTokensLosesNothing) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const int vocab_size = 40, num_frames = 60;
    const std::vector<float> rows = random_log_probs(num_frames, vocab_size, seed, seed % 2 == 0 ? 0.5f : 2.0f);
    for (const std::int32_t beam_size : {1, 2, 8}) {
      CtcPrefixBeamSearch pruned({beam_size, 0}), all({beam_size, vocab_size});
      pruned.advance(rows.data(), num_frames, vocab_size);
      all.advance(rows.data(), num_frames, vocab_size);
      const auto a = pruned.hypotheses(beam_size), b = all.hypotheses(beam_size);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) expect_equal(a[i], b[i]);
    }
  }
}

// Ties must give the same result on every machine: the earlier hypothesis and the lower token come first.
TEST(CtcPrefixBeamSearch, TiesAreBroken) {
  const std::vector<float> rows(2 * 8, std::log(0.125f));
  CtcPrefixBeamSearch search({2, 0});
  const auto best = [&] {
    search.advance(rows.data(), 1, 8);
    const auto found = search.hypotheses(2);
    return std::pair(found.at(0).tokens, found.at(1).tokens);
  };
  EXPECT_EQ(best(), std::pair(Tokens{}, Tokens{1}));
  EXPECT_EQ(best(), std::pair(Tokens{1}, Tokens{}));  // {1} has three paths; 2, 3 and others have one each
  search = CtcPrefixBeamSearch({2, 1});  // one of all tokens is chosen
  EXPECT_EQ(best(), std::pair(Tokens{}, Tokens{1}));
  search = CtcPrefixBeamSearch({4, 2});  // two tokens are chosen: 3, and the lower of 1 and 2
  const std::vector<float> row{std::log(0.05f), std::log(0.2f), std::log(0.2f), std::log(0.55f)};
  search.advance(row.data(), 1, 4);
  const auto found = search.hypotheses(4);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[1].tokens, Tokens{1});
}

template <typename Search>
void expect_cuts_do_not_matter(Search whole, const Search& fresh) {
  const int vocab_size = 20, num_frames = 300;
  const std::vector<float> rows = random_log_probs(num_frames, vocab_size, 5);
  whole.advance(rows.data(), num_frames, vocab_size);
  const auto expected = whole.hypotheses(8);
  std::minstd_rand random(9);
  for (int cut = 0; cut < 15; ++cut) {
    Search search = fresh;
    for (int t = 0; t < num_frames;) {
      const int count = std::min(static_cast<int>(random() % 40), num_frames - t);
      search.advance(rows.data() + t * vocab_size, count, vocab_size);
      search.hypotheses(3);
      t += count;
    }
    const auto hypotheses = search.hypotheses(8);
    ASSERT_EQ(hypotheses.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) expect_equal(hypotheses[i], expected[i]);
  }
}

TEST(CtcSearch, CutsDoNotMatter) {
  expect_cuts_do_not_matter(CtcPrefixBeamSearch({32, 0}), CtcPrefixBeamSearch({32, 0}));
  expect_cuts_do_not_matter(CtcGreedySearch(), CtcGreedySearch());
}

// Each token is nearly certain: 1, blank, 1, 1, blank, 1, blank is "one one one".
TEST(CtcSearch, RepeatsSurvive) {
  std::vector<float> rows;
  for (const int token : {1, 0, 1, 1, 0, 1, 0}) {
    for (int v = 0; v < 3; ++v) rows.push_back(v == token ? -0.01f : -5.0f);
  }
  const auto check = [&](auto search) {
    search.advance(rows.data(), 7, 3);
    const Hypothesis best = search.hypotheses()[0];
    EXPECT_EQ(best.tokens, (Tokens{1, 1, 1}));
    EXPECT_EQ(best.start_frames, (std::vector<std::int64_t>{0, 2, 5}));
    EXPECT_EQ(best.end_frames, (std::vector<std::int64_t>{1, 4, 6}));
    for (const float confidence : best.confidences) EXPECT_NEAR(confidence, std::exp(-0.01), 1e-6);
    EXPECT_EQ(search.num_trailing_blanks(), 1);
    EXPECT_EQ(search.num_frames(), 7);
    // In a new utterance, frame numbers continue and the list of tokens starts again.
    search.reset();
    EXPECT_TRUE(search.hypotheses()[0].tokens.empty());
    EXPECT_EQ(search.hypotheses()[0].log_prob, 0.0);
    EXPECT_EQ(search.num_trailing_blanks(), 0);
    search.advance(rows.data(), 1, 3);
    EXPECT_EQ(search.hypotheses()[0].start_frames, (std::vector<std::int64_t>{7}));
  };
  check(CtcPrefixBeamSearch());
  check(CtcGreedySearch());
}

TEST(CtcSearch, ATokenAfterAResetIsANewOne) {
  const std::vector<float> row = {-5.0f, -0.01f, -5.0f};
  const auto check = [&](auto search) {
    search.advance(row.data(), 1, 3);
    search.reset();
    search.advance(row.data(), 1, 3);
    const Hypothesis best = search.hypotheses()[0];
    EXPECT_EQ(best.tokens, Tokens{1});
    EXPECT_EQ(best.start_frames, std::vector<std::int64_t>{1});
  };
  check(CtcPrefixBeamSearch());
  check(CtcGreedySearch());
}

TEST(CtcSearch, SilenceIsAnEmptyHypothesis) {
  const std::vector<float> rows = {0.0f, -20.0f, 0.0f, -20.0f};
  const auto check = [&](auto search) {
    EXPECT_EQ(search.hypotheses(5).size(), 1u);
    search.advance(rows.data(), 2, 2);
    EXPECT_TRUE(search.hypotheses()[0].tokens.empty());
    EXPECT_EQ(search.num_trailing_blanks(), 2);
  };
  check(CtcPrefixBeamSearch());
  check(CtcGreedySearch());
}

TEST(CtcSearch, ImpossibleTokensAreNoError) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<float> rows = {never, 0.0f, never, never, 0.0f, never, never, never, 0.0f};
  const auto check = [&](auto search) {
    search.advance(rows.data(), 3, 3);
    const auto hypotheses = search.hypotheses(8);
    EXPECT_EQ(hypotheses.size(), 1u);
    EXPECT_EQ(hypotheses[0].tokens, (Tokens{1, 2}));
    EXPECT_EQ(hypotheses[0].log_prob, 0.0);
  };
  check(CtcPrefixBeamSearch());
  check(CtcGreedySearch());
}

TEST(CtcSearch, BadInputIsRefusedAndNotUsed) {
  const float never = -std::numeric_limits<float>::infinity();
  const auto check = [&](auto search) {
    const std::vector<float> good = {-0.1f, -2.4f};
    search.advance(good.data(), 1, 2);
    for (const std::vector<float>& bad :
         {std::vector<float>{-0.1f, std::nanf("")}, {5.0f, -1.0f}, {never, never}, {-1.0f, -never}}) {
      std::vector<float> rows = good;
      rows.insert(rows.end(), bad.begin(), bad.end());
      EXPECT_THROW(search.advance(rows.data(), 2, 2), std::invalid_argument);
    }
    EXPECT_THROW(search.advance(good.data(), 0, 3), std::invalid_argument);
    EXPECT_THROW(search.hypotheses(0), std::invalid_argument);
    EXPECT_EQ(search.num_frames(), 1);
    EXPECT_NEAR(search.hypotheses()[0].log_prob, -0.1, 1e-6);
  };
  check(CtcPrefixBeamSearch());
  check(CtcGreedySearch());
  EXPECT_THROW(CtcPrefixBeamSearch({0, 0}), std::invalid_argument);
  EXPECT_THROW(CtcPrefixBeamSearch({8, -1}), std::invalid_argument);
  EXPECT_THROW(CtcPrefixBeamSearch({8, 0, -1.0}), std::invalid_argument);
  EXPECT_THROW(CtcPrefixBeamSearch({8, 0, std::nan("")}), std::invalid_argument);
}

TEST(CtcPrefixBeamSearch, MemoryIsThatOfTheHypotheses) {
  const int vocab_size = 10, num_frames = 1000;
  CtcPrefixBeamSearch search({8, 0});
  for (unsigned chunk = 0; chunk < 2; ++chunk) {
    std::vector<float> rows = random_log_probs(num_frames, vocab_size, chunk, 1.0f);
    for (int t = 0; t < num_frames; ++t) {  // speech in every tenth frame
      if (t % 10 != 0) rows[static_cast<std::size_t>(t * vocab_size)] = -0.02f;
    }
    search.advance(rows.data(), num_frames, vocab_size);
    std::set<Tokens> prefixes;
    std::size_t num_tokens = 0;
    for (const Hypothesis& hypothesis : search.hypotheses(kBeamSize)) {
      Tokens prefix;
      for (const std::int32_t token : hypothesis.tokens) {
        prefix.push_back(token);
        prefixes.insert(prefix);
      }
      num_tokens += hypothesis.tokens.size();
    }
    EXPECT_EQ(search.num_prefixes(), prefixes.size());
    EXPECT_LE(search.num_histories(), 2 * num_tokens);  // one for each type of alignment
    search.reset();
    EXPECT_EQ(search.num_prefixes(), 0u);
    EXPECT_EQ(search.num_histories(), 0u);
  }
}

TEST(CtcPhraseSearch, AFrameOfALongListIsNoMoreWork) {
  const std::vector<std::string> tokens = {"<blk>", "\xE2\x96\x81", "A", "B", "C", "D", "E", "F", "G", "H"};
  const auto vocab_size = static_cast<int>(tokens.size());
  std::string list;
  for (int phrase = 0; phrase < 1 << 15; ++phrase) {  // each phrase has five letters
    for (int shift = 0; shift < 15; shift += 3) list += static_cast<char>('A' + (phrase >> shift) % 8);
    list += '\n';
  }
  CtcPhraseSearch search(std::make_shared<Phrases>(list, tokens, 1.0f));
  const std::vector<float> rows = random_log_probs(40, vocab_size, 0, 1.0f);
  std::size_t most = 0;
  for (int t = 0; t < 40; ++t) {
    search.advance(&rows[static_cast<std::size_t>(t * vocab_size)], 1, vocab_size);
    most = std::max(most, search.num_states());
  }
  EXPECT_GT(most, 4000u);
  EXPECT_LE(most, 4100u);
}

}  // namespace
}  // namespace asr_stream
