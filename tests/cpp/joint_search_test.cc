// The joint search, compared with the scores of all sentences.
#include "search/joint_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "contract.h"

namespace asr_stream {
namespace {

using Sentence = std::vector<std::int32_t>;

constexpr std::int32_t kVocab = 6;  // blank, <unk>, the sentence edge and three tokens
constexpr int kFrames = 4;

std::vector<float> random_row(std::mt19937& random) {
  std::vector<float> row(kVocab);
  float sum = 0.0f;
  for (float& p : row) sum += p = 0.02f + static_cast<float>(random() % (1 << 24)) / (1 << 24);  // no ties
  for (float& p : row) p = std::log(p / sum);
  return row;
}

std::vector<float> random_rows(std::mt19937& random) {
  std::vector<float> rows;
  for (int t = 0; t < kFrames; ++t) {
    const std::vector<float> row = random_row(random);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

// A decoder: random log-probabilities for each beginning of a sentence.
class Decoder {
 public:
  explicit Decoder(unsigned seed) : seed_(seed) {}

  const std::vector<float>& following(const Sentence& begun) {
    auto [found, is_new] = rows_.try_emplace(begun);
    if (is_new) {
      unsigned seed = seed_;
      for (const std::int32_t token : begun) seed = 31 * seed + static_cast<unsigned>(token);
      std::mt19937 random(seed);
      found->second = random_row(random);
    }
    return found->second;
  }

  double log_prob(const Sentence& sentence) {
    double sum = 0.0;
    Sentence begun;
    for (const std::int32_t token : sentence) {
      sum += following(begun)[static_cast<std::size_t>(token)];
      begun.push_back(token);
    }
    return sum + following(begun)[kSosEosId];
  }

 private:
  unsigned seed_;
  std::map<Sentence, std::vector<float>> rows_;
};

struct Paths {
  double prob = 0.0;            // of all alignments
  double best = 0.0;            // of the best one
  std::vector<std::int32_t> alignment;  // the best one
};

// All sentences that the frames can spell. of_text: without those of tokens that are no text.
std::map<Sentence, Paths> spelled(const std::vector<float>& rows, bool of_text = true) {
  std::map<Sentence, Paths> found;
  std::vector<std::int32_t> path(kFrames, 0);
  for (int code = 0; code < static_cast<int>(std::pow(kVocab, kFrames)); ++code) {
    double log_prob = 0.0;
    Sentence sentence;
    for (int t = 0, rest = code; t < kFrames; ++t, rest /= kVocab) {
      const std::int32_t token = path[static_cast<std::size_t>(t)] = rest % kVocab;
      log_prob += rows[static_cast<std::size_t>(t * kVocab + token)];
      const bool repeats = t > 0 && path[static_cast<std::size_t>(t) - 1] == token;
      if (token != kBlankId && !repeats) sentence.push_back(token);
    }
    const auto is_no_text = [](std::int32_t token) { return token <= kSosEosId; };
    if (of_text && std::any_of(sentence.begin(), sentence.end(), is_no_text)) continue;
    Paths& paths = found[sentence];
    paths.prob += std::exp(log_prob);
    if (std::exp(log_prob) > paths.best) {
      paths.best = std::exp(log_prob);
      paths.alignment = path;
    }
  }
  return found;
}

std::vector<Hypothesis> search(const std::vector<float>& rows, Decoder& decoder, const JointSearchOptions& options,
                               std::int64_t first_frame = 0) {
  JointSearch joint(kVocab, options);
  for (int t = 0; t < kFrames; ++t) joint.append(rows.data() + t * kVocab);
  std::vector<Sentence> begun;
  while (const std::optional<DecoderStep> step = joint.step()) {
    EXPECT_EQ(step->begins, begun.empty());
    std::vector<Sentence> next;
    std::vector<float> answer;
    for (std::size_t i = 0; i < step->tokens.size(); ++i) {
      Sentence sentence;
      if (step->begins) {
        EXPECT_EQ(step->parents, std::vector<std::int64_t>{0});
        EXPECT_EQ(step->tokens, std::vector<std::int64_t>{kSosEosId});
      } else {
        sentence = begun.at(static_cast<std::size_t>(step->parents[i]));
        sentence.push_back(static_cast<std::int32_t>(step->tokens[i]));
      }
      const std::vector<float>& row = decoder.following(sentence);
      answer.insert(answer.end(), row.begin(), row.end());
      next.push_back(sentence);
    }
    begun = next;
    EXPECT_LE(begun.size(), options.beam_size);
    joint.answer({answer.data(), static_cast<std::int64_t>(begun.size()), kVocab});
  }
  EXPECT_FALSE(joint.step());
  return joint.hypotheses(1000, first_frame);
}

TEST(JointSearch, FindsTheBestOfAllSentences) {
  for (unsigned seed = 0; seed < 15; ++seed) {
    std::mt19937 random(seed);
    const std::vector<float> rows = random_rows(random);
    const std::map<Sentence, Paths> all = spelled(rows);
    Decoder decoder(seed);
    for (const double weight : {0.0, 0.3, 1.0}) {
      const auto score = [&](const Sentence& sentence) {
        const double said = decoder.log_prob(sentence);
        if (weight == 0.0) return said / static_cast<double>(sentence.size() + 1);
        return weight * std::log(all.at(sentence).prob) + (1 - weight) * said;
      };
      double best = -std::numeric_limits<double>::infinity();
      for (const auto& [sentence, paths] : all) best = std::max(best, score(sentence));
      const std::vector<Hypothesis> found = search(rows, decoder, {weight, 1000}, 100);
      if (weight > 0.0) {  // without CTC, the search may stop early
        EXPECT_NEAR(found.front().log_prob, best, 1e-5) << seed << " " << weight;
      }
      double before = std::numeric_limits<double>::infinity();
      for (const Hypothesis& each : found) {
        ASSERT_EQ(all.count(each.tokens), 1u);
        EXPECT_NEAR(each.log_prob, score(each.tokens), 1e-5) << seed << " " << weight;
        EXPECT_LE(each.log_prob, before);
        before = each.log_prob;
        // Frames are those of the best alignment.
        const std::vector<std::int32_t>& alignment = all.at(each.tokens).alignment;
        std::vector<std::int64_t> starts, ends;
        for (std::size_t t = 0; t < alignment.size(); ++t) {
          if (alignment[t] == kBlankId) continue;
          if (t > 0 && alignment[t - 1] == alignment[t]) ++ends.back();
          else starts.push_back(100 + static_cast<std::int64_t>(t)), ends.push_back(starts.back() + 1);
        }
        EXPECT_EQ(each.start_frames, starts) << seed;
        EXPECT_EQ(each.end_frames, ends) << seed;
      }
    }
  }
}

// By the probability of all sentences that begin so, and that of the decoder.
TEST(JointSearch, KeepsTheLikeliestBeginnings) {
  constexpr double kWeight = 0.6;
  constexpr std::size_t kBeam = 2;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const std::vector<float> rows = random_rows(random);
    const std::map<Sentence, Paths> all = spelled(rows, false);
    Decoder decoder(seed);
    JointSearch joint(kVocab, {kWeight, kBeam});
    for (std::size_t t = 0; t < kFrames; ++t) joint.append(rows.data() + t * kVocab);
    std::vector<Sentence> kept{{}};
    while (joint.step()) {
      std::vector<std::pair<double, Sentence>> next;
      std::vector<float> answer;
      for (const Sentence& before : kept) {
        const std::vector<float>& row = decoder.following(before);
        answer.insert(answer.end(), row.begin(), row.end());
        for (std::int32_t token = kSosEosId + 1; token < kVocab; ++token) {
          Sentence begun = before;
          begun.push_back(token);
          double prob = 0.0;
          for (const auto& [sentence, paths] : all) {
            const bool begins_so = sentence.size() >= begun.size() &&
                                   std::equal(begun.begin(), begun.end(), sentence.begin());
            if (begins_so) prob += paths.prob;
          }
          if (prob == 0.0) continue;  // longer than the audio
          const double said = decoder.log_prob(begun) - decoder.following(begun)[kSosEosId];
          next.emplace_back(kWeight * std::log(prob) + (1 - kWeight) * said, begun);
        }
      }
      std::sort(next.rbegin(), next.rend());
      next.resize(std::min(next.size(), kBeam));
      joint.answer({answer.data(), static_cast<std::int64_t>(kept.size()), kVocab});
      const std::optional<DecoderStep> step = joint.step();
      if (!step) break;  // no longer sentence can be better
      ASSERT_EQ(step->tokens.size(), next.size());
      std::vector<Sentence> found;
      for (std::size_t i = 0; i < next.size(); ++i) {
        found.push_back(kept.at(static_cast<std::size_t>(step->parents[i])));
        found.back().push_back(static_cast<std::int32_t>(step->tokens[i]));
        EXPECT_EQ(found.back(), next[i].second) << seed;
      }
      kept = found;
    }
  }
}

// Token 3 in the first frame and again in the third, with a blank in between, or in all three as one.
TEST(JointSearch, ARepeatedTokenNeedsABlank) {
  for (const bool with_blank : {true, false}) {
    std::vector<float> rows(kFrames * kVocab, -20.0f);
    for (std::size_t t = 0; t < kFrames; ++t) rows[t * kVocab + (t == 1 && with_blank ? 0 : 3)] = -0.01f;
    Decoder decoder(1);
    const std::vector<Hypothesis> found = search(rows, decoder, {1.0, 8});
    EXPECT_EQ(found.front().tokens, Sentence(with_blank ? 2 : 1, 3));
    EXPECT_NEAR(found.front().log_prob, -0.04, 1e-3);
  }
}

TEST(JointSearch, ANarrowBeamAndTheNumberOfSentencesAreLimits) {
  std::mt19937 random(5);
  const std::vector<float> rows = random_rows(random);
  Decoder decoder(5);
  EXPECT_LE(search(rows, decoder, {0.3, 2}).size(), 2u);
  JointSearch joint(kVocab, {0.3, 8});
  joint.append(rows.data());
  ASSERT_TRUE(joint.step());
  joint.answer({decoder.following({}).data(), 1, kVocab});
  EXPECT_EQ(joint.hypotheses(1).size(), 1u);
}

TEST(JointSearch, WithoutAudioTheSentenceIsEmpty) {
  JointSearch joint(kVocab, {0.3, 8});
  const std::vector<float> row(kVocab, -1.0f);
  while (joint.step()) joint.answer({row.data(), 1, kVocab});
  const std::vector<Hypothesis> found = joint.hypotheses(5);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].tokens.empty());
}

TEST(JointSearch, OddInputIsRefused) {
  EXPECT_THROW(JointSearch(2, {}), std::invalid_argument);
  EXPECT_THROW(JointSearch(kVocab, {1.5, 8}), std::invalid_argument);
  EXPECT_THROW(JointSearch(kVocab, {0.5, 0}), std::invalid_argument);
  JointSearch joint(kVocab, {});
  std::vector<float> row(kVocab, -1.0f);
  joint.append(row.data());
  ASSERT_TRUE(joint.step());
  EXPECT_THROW(joint.answer({row.data(), 2, kVocab}), std::invalid_argument);
  EXPECT_THROW(joint.answer({row.data(), 1, kVocab - 1}), std::invalid_argument);
  row[3] = std::nanf("");
  EXPECT_THROW(joint.answer({row.data(), 1, kVocab}), std::invalid_argument);
  row[3] = -1.0f;
  EXPECT_NO_THROW(joint.answer({row.data(), 1, kVocab}));
}

TEST(DecoderWork, SentencesArePadded) {
  const Work work = decoder_work({{4, 5, 3}, {}, {5}}, std::vector<float>(2 * 3, 0.5f), 3);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(work.inputs[0].data),
            (std::vector<std::int64_t>{4, 5, 3, 0, 0, 0, 5, 0, 0}));
  EXPECT_EQ(work.inputs[0].shape, (Shape{3, 3}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(work.inputs[1].data), (std::vector<std::int64_t>{3, 0, 1}));
  EXPECT_EQ(work.inputs[2].shape, (Shape{1, 2, 3}));
  EXPECT_EQ(work.outputs[0].shape, Shape{3});
  EXPECT_FALSE(work.state);
}

}  // namespace
}  // namespace asr_stream
