// Rescoring with a neural language model, compared with its definition.
#include "search/neural_lm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "contract.h"
#include "small_lm.h"

namespace asr_stream {
namespace {

constexpr double kWeight = 0.5;  // of the n-grams in the search
constexpr NeuralLmWeights kWeights{0.4, 0.7};  // without them

// The sentences after the answer to a tree that is run at once.
std::vector<Hypothesis> rescored(SentenceRescoring& rescoring, const std::vector<float>& log_probs) {
  rescoring.add(log_probs);
  EXPECT_FALSE(rescoring.next_part());
  return rescoring.rescored();
}

std::shared_ptr<const LmFusion> fusion() {
  const auto bytes = small_file(kPronounced);
  LmFusionOptions options;
  options.weight = static_cast<float>(kWeight);
  return std::make_shared<const LmFusion>(std::make_shared<const NgramLm>(bytes.data(), bytes.size()),
                                          std::vector<std::string>{"", "<unk>", "", "\xe2\x96\x81", "A", "B"}, options,
                                          nullptr, std::vector<std::string>{"P"});
}

// With a share of 1, the n-grams take no part.
NeuralLmMetadata metadata(const char* share = "1", const char* weight = "1") {
  return NeuralLmMetadata(std::map<std::string, std::string>{
      {"model_type", kNeuralLmType},
      {"format_version", std::to_string(kNeuralLmVersion)},
      {"pieces", "<blk>\n<unk>\n<sos/eos>\n\xe2\x96\x81" "A\n\xe2\x96\x81" "AB\n\xe2\x96\x81" "B"},
      {"share", share},
      {"weight", weight}});
}

constexpr std::int64_t kPieceOfA = 3, kPieceOfAb = 4, kPieceOfB = 5;

Hypothesis sentence(std::int32_t word, double score) {
  Hypothesis result;
  result.words = {word};
  result.log_prob = score;
  return result;
}

// Log-probabilities for a tree: those of the pieces at the root, and those of the ends after them; -1 if not given.
std::vector<float> answer(const PieceTree& tree, const std::map<std::int64_t, float>& pieces,
                          const std::map<std::int64_t, float>& ends) {
  std::vector<float> log_probs(tree.pieces.size(), -1.0f);
  const auto look_up = [](const std::map<std::int64_t, float>& from, std::int64_t piece, float& log_prob) {
    const auto found = from.find(piece);
    if (found != from.end()) log_prob = found->second;
  };
  for (std::size_t node = 1; node < log_probs.size(); ++node) {
    if (tree.depths[node] == 1) look_up(pieces, tree.pieces[node], log_probs[node]);
    if (tree.depths[node] != 2) continue;
    look_up(ends, tree.pieces[static_cast<std::size_t>(tree.parents[node])], log_probs[node]);
  }
  return log_probs;
}

// The change of a sentence's score: from that of the n-grams to these log-probabilities of its word and its end.
double change(const LmFusion& fusion, std::int32_t word, double of_word, double of_end) {
  const std::vector<float> ngrams = fusion.log_probs(nullptr, {word});
  return kWeight * (of_word + of_end - static_cast<double>(ngrams[0]) - static_cast<double>(ngrams[1]));
}

TEST(SentenceRescoring, TheEndOfASentenceCostsNoMoreThanAPause) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata();
  const WordIds ids(search.get());
  SentenceRescoring rescoring(search.get(), lm, kWeights, {sentence(kA, 0.0), sentence(kB, -1.0)}, ids, {}, nullptr);
  const auto found = rescored(rescoring, answer(*rescoring.next_part(), {}, {{kPieceOfA, -40.0f}, {kPieceOfB, -3.0f}}));
  ASSERT_EQ(found.size(), 2u);
  for (const Hypothesis& each : found) {
    const bool is_a = each.words[0] == kA;
    const double end = is_a ? static_cast<double>(LmFusion::kPauseLogProb) : -3.0;
    EXPECT_NEAR(each.lm_score, change(*search, each.words[0], -1.0, end), 1e-4) << is_a;
  }
  // Words have no such limit.
  SentenceRescoring again(search.get(), lm, kWeights, {sentence(kA, 0.0)}, WordIds(search.get()), {}, nullptr);
  const auto unlikely = rescored(again, answer(*again.next_part(), {{kPieceOfA, -40.0f}}, {}));
  EXPECT_NEAR(unlikely[0].lm_score, change(*search, kA, -40.0, -1.0), 1e-4);
}

// A sentence that is not scored comes closer neither to the best nor to the last one that is.
TEST(SentenceRescoring, UnlikelySentencesStayBehindAllOthers) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata();
  for (const bool best_falls : {false, true}) {
    const std::vector<Hypothesis> before{sentence(kA, 0.0), sentence(kB, -1.0), sentence(kAb, -1.0 - kRescoringBeam)};
    SentenceRescoring rescoring(search.get(), lm, kWeights, before, WordIds(search.get()), {}, nullptr);
    ASSERT_EQ(rescoring.num_rescored(), 2u);
    const std::map<std::int64_t, float> pieces{{kPieceOfA, best_falls ? -30.0f : -0.1f}, {kPieceOfB, -9.0f}};
    const auto after = rescored(rescoring, answer(*rescoring.next_part(), pieces, {}));
    ASSERT_EQ(after.size(), 3u);
    EXPECT_EQ(after[0].words[0], static_cast<std::int32_t>(best_falls ? kB : kA));
    const double best = after[0].score() - before[0].score(), last = after[1].score() - before[1].score();
    EXPECT_GT(std::abs(best - last), 1.0);
    EXPECT_NEAR(after[2].lm_score, std::min(best, last), 1e-6);
    EXPECT_LT(after[2].score(), after[1].score());
  }
}

TEST(SentenceRescoring, AnOddAnswerIsRefusedAndTheSentencesAreKept) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata();
  const WordIds ids(search.get());
  SentenceRescoring rescoring(search.get(), lm, kWeights, {sentence(kA, 0.0), sentence(kB, -1.0)}, ids, {}, nullptr);
  std::vector<float> odd = answer(*rescoring.next_part(), {}, {});
  odd.back() = 0.5f;
  EXPECT_THROW(rescoring.add(odd), std::invalid_argument);
  EXPECT_THROW(rescoring.add({}), std::invalid_argument);
  const auto kept = rescoring.take_sentences();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].score(), 0.0);
  EXPECT_EQ(kept[1].score(), -1.0);
}

TEST(SentenceRescoring, WithoutNgramsWordsHaveTheWeightAndTheBonusOfTheModel) {
  const NeuralLmMetadata lm = metadata();
  WordIds ids(nullptr);
  std::vector<Hypothesis> sentences{sentence(ids.of("A"), 0.0), sentence(ids.of("XY"), -0.1),
                                    sentence(ids.of("AB"), -0.2)};
  sentences[2].words.push_back(ids.of("B"));
  EXPECT_EQ(ids.of("XY"), sentences[1].words[0]);
  EXPECT_EQ(ids.text(sentences[1].words[0]), "XY");
  SentenceRescoring rescoring(nullptr, lm, kWeights, sentences, ids, {}, nullptr);
  const auto found = rescored(rescoring, answer(*rescoring.next_part(), {{kPieceOfA, -3.0f}, {kPieceOfAb, -2.0f}}, {}));
  ASSERT_EQ(found.size(), 3u);
  for (const Hypothesis& each : found) {
    double expected = 0.4 * (-3.0 - 1.0) + 0.7;
    if (each.words.size() == 2) expected = 0.4 * (-2.0 - 1.0 - 1.0) + 2 * 0.7;
    if (ids.text(each.words[0]) == "XY") expected = 0.4 * (-20.0 - 1.0) + 0.7;  // no piece can spell it
    EXPECT_NEAR(each.lm_score, expected, 1e-4) << ids.text(each.words[0]);
  }
  EXPECT_EQ(ids.text(found.back().words[0]), "XY");
}

Hypothesis of_words(std::vector<std::int32_t> words, double score) {
  Hypothesis result = sentence(0, score);
  result.words = std::move(words);
  return result;
}

TEST(SentenceRescoring, AWordHasAMeanOfBothProbabilities) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata("0.25", "0.8");
  const WordIds ids(search.get());
  SentenceRescoring rescoring(search.get(), lm, kWeights, {sentence(kA, -2.0)}, ids, {}, nullptr);
  const auto found = rescored(rescoring, answer(*rescoring.next_part(), {{kPieceOfA, -0.2f}}, {{kPieceOfA, -1.5f}}));
  const std::vector<float> ngrams = search->log_probs(nullptr, {kA});
  double gain = 0.0;
  for (const auto& [neural, ngram] : {std::pair(-0.2, ngrams[0]), std::pair(-1.5, ngrams[1])}) {
    const double of_ngrams = static_cast<double>(ngram);
    gain += 0.8 * std::log(0.25 * std::exp(neural) + 0.75 * std::exp(of_ngrams)) - of_ngrams;
  }
  EXPECT_NEAR(found[0].lm_score, kWeight * gain, 1e-5);
  EXPECT_EQ(found[0].log_prob, -2.0);
}

// The nodes of the tree as paths from the root.
std::vector<std::vector<std::int64_t>> paths_of(const PieceTree& tree) {
  std::vector<std::vector<std::int64_t>> paths;
  for (std::size_t node = 0; node < tree.pieces.size(); ++node) {
    std::vector<std::int64_t> path;
    if (node) path = paths.at(static_cast<std::size_t>(tree.parents[node]));
    path.push_back(tree.pieces[node]);
    EXPECT_EQ(tree.depths[node], static_cast<std::int64_t>(path.size()) - 1);
    paths.push_back(path);
  }
  // In preorder, so the descendants of a node are those before its end.
  for (std::size_t node = 0; node < paths.size(); ++node) {
    for (std::size_t other = node; other < paths.size(); ++other) {
      bool is_below = false;
      for (auto at = static_cast<std::int64_t>(other); at >= static_cast<std::int64_t>(node);
           at = tree.parents[static_cast<std::size_t>(at)]) {
        is_below = at == static_cast<std::int64_t>(node);
        if (is_below || at == 0) break;
      }
      EXPECT_EQ(is_below, static_cast<std::int64_t>(other) < tree.ends[node]) << node << " " << other;
    }
  }
  return paths;
}

using Path = std::vector<std::int64_t>;
constexpr std::int64_t kEdge = WordPieces::kSentenceEdge;

TEST(SentenceRescoring, SentencesThatBeginAlikeShareTheirNodes) {
  const auto search = fusion();
  const std::vector<Hypothesis> sentences{of_words({kA, kB}, 0.0), of_words({kA, kAb}, -1.0), of_words({kAb}, -2.0)};
  const NeuralLmMetadata lm = metadata();
  SentenceRescoring rescoring(search.get(), lm, kWeights, sentences, WordIds(search.get()), {}, nullptr);
  auto paths = paths_of(*rescoring.next_part());
  std::sort(paths.begin(), paths.end());
  EXPECT_EQ(paths, (std::vector<Path>{{kEdge},
                                      {kEdge, kPieceOfA},
                                      {kEdge, kPieceOfA, kPieceOfAb},
                                      {kEdge, kPieceOfA, kPieceOfAb, kEdge},
                                      {kEdge, kPieceOfA, kPieceOfB},
                                      {kEdge, kPieceOfA, kPieceOfB, kEdge},
                                      {kEdge, kPieceOfAb},
                                      {kEdge, kPieceOfAb, kEdge}}));
  const Work work = tree_work(*rescoring.next_part());
  EXPECT_EQ(work.network, Network::kNeuralLm);
  ASSERT_EQ(work.inputs.size(), 4u);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(work.inputs[1].data), rescoring.next_part()->parents);
  EXPECT_EQ(work.outputs.at(0).shape, Shape{8});
}

// Six words are enough history.
TEST(SentenceRescoring, SentencesWithTheSameLastWordsShareTheNodesBehindThem) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata();
  const auto num_nodes = [&](std::size_t num_alike) {
    std::vector<std::int32_t> one{kA}, other{kB};
    for (std::vector<std::int32_t>* words : {&one, &other}) {
      words->insert(words->end(), num_alike, kAb);
      words->insert(words->end(), 2, kA);
    }
    SentenceRescoring rescoring(search.get(), lm, kWeights, {of_words(one, 0.0), of_words(other, -1.0)},
                                WordIds(search.get()), {}, nullptr);
    paths_of(*rescoring.next_part());
    return rescoring.next_part()->pieces.size();
  };
  EXPECT_EQ(num_nodes(3), 1 + 2 * (1 + 3 + 2 + 1u));
  EXPECT_EQ(num_nodes(4), 1 + (1 + 4 + 2 + 1) + (1 + 4 + 1 + 1u));  // all but the end
  EXPECT_EQ(num_nodes(6), 1 + (1 + 6 + 2 + 1) + (1 + 6u));
}

TEST(SentenceRescoring, FollowsTheWordsBefore) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata();
  const auto first_sentence = [&](const std::vector<std::string>& context) {
    SentenceRescoring rescoring(search.get(), lm, kWeights, {sentence(kB, 0.0)}, WordIds(search.get()), context,
                                nullptr);
    Path longest;
    for (const Path& path : paths_of(*rescoring.next_part())) {
      if (path.size() > 1 && path.end()[-2] == kPieceOfB && path.size() > longest.size()) longest = path;
    }
    return longest;
  };
  EXPECT_EQ(first_sentence({"A", "AB", "unspelled"}), (Path{kEdge, kPieceOfA, kPieceOfAb, kEdge, kPieceOfB, kEdge}));
  std::vector<std::string> many(47, "A");
  many.insert(many.begin(), {"B", "AB"});
  const Path path = first_sentence(many);  // the last 48 pieces
  ASSERT_EQ(path.size(), 1 + 48 + 1 + 2u);
  EXPECT_EQ(path[1], kPieceOfAb);
  EXPECT_EQ(path[2], kPieceOfA);
}

TEST(SentenceRescoring, OnlyLikelySentencesAreScored) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata();
  std::vector<Hypothesis> sentences{sentence(kA, 0.0), sentence(kB, -kRescoringBeam),
                                    sentence(kAb, -kRescoringBeam - 0.1)};
  SentenceRescoring rescoring(search.get(), lm, kWeights, sentences, WordIds(search.get()), {}, nullptr);
  EXPECT_EQ(rescoring.num_rescored(), 2u);
  sentences.clear();
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::vector<std::int32_t> words(15);
    for (std::int32_t& word : words) word = static_cast<std::int32_t>(kA + random() % 3);
    sentences.push_back(of_words(words, 0.0));
  }
  SentenceRescoring many(search.get(), lm, kWeights, sentences, WordIds(search.get()), {}, nullptr);
  EXPECT_LT(many.num_rescored(), 500u);
  std::vector<Path> all;
  while (const std::optional<PieceTree> part = many.next_part()) {
    const std::vector<Path> paths = paths_of(*part);
    all.insert(all.end(), paths.begin(), paths.end());
    many.add(std::vector<float>(part->pieces.size(), -1.0f));
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  EXPECT_LT(all.size(), kMaxNodes + 20);
  EXPECT_EQ(many.rescored().size(), 500u);
}

// Each part has the ancestors of its nodes, so that the nodes get the same numbers as in one run.
TEST(SentenceRescoring, ALargeTreeIsRunInParts) {
  const auto search = fusion();
  const NeuralLmMetadata lm = metadata();
  std::mt19937 random(2);
  std::vector<Hypothesis> sentences;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::int32_t> words(15);
    for (std::int32_t& word : words) word = static_cast<std::int32_t>(kA + random() % 3);
    sentences.push_back(of_words(words, 0.0));
  }
  SentenceRescoring rescoring(search.get(), lm, kWeights, sentences, WordIds(search.get()), {}, nullptr);
  const auto log_prob = [](const Path& path) {  // depends on the path from the root
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < path.size(); ++i) sum += static_cast<std::int64_t>(i + 1) * path[i];
    return -0.01f * static_cast<float>(sum % 97);
  };
  std::size_t num_parts = 0;
  std::set<Path> seen;
  while (const std::optional<PieceTree> part = rescoring.next_part()) {
    ++num_parts;
    EXPECT_GE(part->pieces.size(), PieceTree::kMinNodes);
    EXPECT_LT(part->pieces.size(), kMaxNodesOfRun + PieceTree::kMinNodes);
    std::vector<float> log_probs;
    for (const Path& path : paths_of(*part)) {
      log_probs.push_back(log_prob(path));
      seen.insert(path);
    }
    EXPECT_THROW(rescoring.add(std::vector<float>(log_probs.size(), 1.0f)), std::invalid_argument);
    rescoring.add(log_probs);
  }
  EXPECT_GT(num_parts, 2u);
  EXPECT_GT(seen.size(), 2 * kMaxNodesOfRun);
  const auto piece = [](std::int32_t word) { return word == kA ? kPieceOfA : word == kB ? kPieceOfB : kPieceOfAb; };
  for (const Hypothesis& found : rescoring.rescored()) {
    Path path{kEdge};
    double expected = 0.0;
    const std::vector<float> ngrams = search->log_probs(nullptr, found.words);
    for (std::size_t i = 0; i <= found.words.size(); ++i) {
      path.push_back(i < found.words.size() ? piece(found.words[i]) : kEdge);
      if (!seen.count(path)) break;  // after words that another sentence has, too
      double own = static_cast<double>(log_prob(path));
      if (i == found.words.size()) own = std::max(own, static_cast<double>(LmFusion::kPauseLogProb));
      expected += kWeight * (own - static_cast<double>(ngrams[i]));
    }
    if (seen.count(path)) {
      EXPECT_NEAR(found.lm_score, expected, 1e-3);
    }
  }
}

TEST(WordPieces, AreTheLongestThatMatch) {
  const WordPieces pieces({"<blk>", "<unk>", "<sos/eos>", "\xe2\x96\x81", "\xe2\x96\x81" "A", "B", "BC", "\xc3\xa4"});
  EXPECT_EQ(pieces.of("ABCB"), (std::vector<std::int32_t>{4, 6, 5}));
  EXPECT_EQ(pieces.of("B\xc3\xa4"), (std::vector<std::int32_t>{3, 5, 7}));
  EXPECT_TRUE(pieces.of("AC").empty());
  EXPECT_THROW(WordPieces({"<blk>", "<unk>", "<sos/eos>"}), std::invalid_argument);
  EXPECT_THROW(WordPieces({"<blk>", "<unk>", "<sos/eos>", "A", "A"}), std::invalid_argument);
}

TEST(NeuralLmMetadata, DamageIsNamed) {
  const auto fault = [](const char* share, const char* weight) {
    try {
      metadata(share, weight);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(fault("0.5", "1"), "");
  EXPECT_NE(fault("1.5", "1").find("share is '1.5'"), std::string::npos);
  EXPECT_NE(fault("0.5", "x").find("weight is 'x'"), std::string::npos);
}

TEST(WordIds, KnownWordsHaveThoseOfTheLanguageModel) {
  const auto bytes = small_file(kPronounced);
  const auto lm = std::make_shared<const NgramLm>(bytes.data(), bytes.size());
  const LmFusion letters(lm, {"", "<unk>", "", "\xe2\x96\x81", "A", "B"}, LmFusionOptions());
  WordIds ids(&letters);
  EXPECT_EQ(ids.of("AB"), kAb);
  const std::int32_t added = ids.of("BB");
  EXPECT_GE(added, letters.num_words());
  EXPECT_EQ(ids.of("BB"), added);
  EXPECT_NE(ids.of("BBB"), added);
  EXPECT_EQ(ids.text(kAb), "AB");
  EXPECT_EQ(ids.text(added), "BB");
  const auto phones = fusion();
  EXPECT_EQ(WordIds(phones.get()).of("BB"), phones->unknown_word());
}

TEST(KeepDistinct, KeepsTheBestOfTheSameWordsAndNoneWithoutWordsBehind) {
  Hypothesis empty;
  std::vector<Hypothesis> sentences{sentence(kA, 0.0), sentence(kB, -1.0), empty, sentence(kA, -2.0)};
  keep_distinct(sentences);
  ASSERT_EQ(sentences.size(), 2u);
  EXPECT_EQ(sentences[0].score(), 0.0);
  EXPECT_EQ(sentences[1].score(), -1.0);
  sentences = {empty, sentence(kA, -1.0)};
  keep_distinct(sentences);
  EXPECT_EQ(sentences.size(), 2u);
}

}  // namespace
}  // namespace asr_stream
