#include "search/neural_lm.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "contract.h"
#include "metadata.h"
#include "utf8.h"

namespace asr_stream {

namespace {

constexpr std::size_t kNumSpecial = 3;     // blank, unknown, sentence edge; not part of any word
constexpr std::size_t kMaxContext = 48;    // in pieces of the previous utterance
constexpr std::ptrdiff_t kHistory = 6;     // in words; sentences with the same last words share the next nodes
constexpr float kLeast = -1000.0f;         // minimum log-probability of a node; infinities would lead to NaN
constexpr float kMost = 1e-3f;             // maximum log-probability, which rounding may bring above 0
constexpr double kUnspelled = -20.0;       // log-probability of a word that the pieces cannot spell, without n-grams

WordPieces read_pieces(const MetadataEntries& entries) {
  const std::vector<std::string_view> lines = split(entries.text("pieces"), "\n");
  try {
    return WordPieces({lines.begin(), lines.end()});
  } catch (const std::invalid_argument&) {
    entries.throw_damaged("pieces", "word pieces, one a line, each once");
  }
}

}  // namespace

WordPieces::WordPieces(const std::vector<std::string>& pieces) {
  if (pieces.size() <= kNumSpecial) {
    throw std::invalid_argument(std::to_string(pieces.size()) + " word pieces; expected more than the 3 special ones");
  }
  for (std::size_t i = kNumSpecial; i < pieces.size(); ++i) {
    if (pieces[i].empty() || !ids_.emplace(pieces[i], static_cast<std::int32_t>(i)).second) {
      throw std::invalid_argument("word piece " + std::to_string(i) + " is empty or occurs twice");
    }
    longest_ = std::max(longest_, pieces[i].size());
  }
}

std::vector<std::int32_t> WordPieces::of(std::string_view word) const {
  std::string rest = std::string(kWordBoundary) + std::string(word);
  std::vector<std::int32_t> result;
  for (std::size_t at = 0; at < rest.size();) {
    auto found = ids_.end();
    std::size_t length = std::min(longest_, rest.size() - at);
    while (length && (found = ids_.find(rest.substr(at, length))) == ids_.end()) --length;
    if (!length) return {};
    result.push_back(found->second);
    at += length;
  }
  return result;
}

NeuralLmMetadata::NeuralLmMetadata(const std::map<std::string, std::string>& properties)
    : NeuralLmMetadata(MetadataEntries(properties, kNeuralLmType, "neural language model", kNeuralLmVersion)) {}

NeuralLmMetadata::NeuralLmMetadata(const MetadataEntries& entries)
    : pieces(read_pieces(entries)), share(entries.real("share", 0.0, 1.0)), weight(entries.real("weight", 0.0, 10.0)) {}

Work tree_work(const PieceTree& tree) {
  const Shape shape{static_cast<std::int64_t>(tree.pieces.size())};
  return {Network::kNeuralLm,
          {{kNeuralLmInputs[0], shape, tree.pieces},
           {kNeuralLmInputs[1], shape, tree.parents},
           {kNeuralLmInputs[2], shape, tree.depths},
           {kNeuralLmInputs[3], shape, tree.ends}},
          {{kNeuralLmOutputs[0], shape}}};
}

SentenceRescoring::SentenceRescoring(const LmFusion* ngrams, const NeuralLmMetadata& lm,
                                     const NeuralLmWeights& weights, std::vector<Hypothesis> sentences,
                                     const WordIds& ids, const std::vector<std::string>& context,
                                     const NgramLm::State* before)
    : share_(lm.share),
      weight_(lm.weight),
      scale_(ngrams ? static_cast<double>(ngrams->options().weight) : weights.weight),
      word_bonus_(ngrams ? 0.0 : weights.word_bonus),
      sentences_(std::move(sentences)) {
  const WordPieces& pieces = lm.pieces;
  std::vector<std::int32_t> beginning;
  for (const std::string& word : context) {
    const std::vector<std::int32_t> spelled = pieces.of(word);
    beginning.insert(beginning.end(), spelled.begin(), spelled.end());
  }
  if (beginning.size() > kMaxContext) beginning.erase(beginning.begin(), beginning.end() - kMaxContext);
  if (!beginning.empty()) beginning.push_back(WordPieces::kSentenceEdge);
  std::int32_t root = child(-1, WordPieces::kSentenceEdge);
  for (const std::int32_t piece : beginning) root = child(root, piece);
  const double lowest = sentences_.front().score() - kRescoringBeam;
  for (const Hypothesis& sentence : sentences_) {
    if (sentence.score() < lowest || nodes_.size() >= kMaxNodes) break;
    Scored scored;
    if (ngrams) scored.ngrams = ngrams->log_probs(before, sentence.words);
    std::int32_t node = root;
    const auto begin = sentence.words.begin();
    for (auto word = begin; word != sentence.words.end(); ++word) {
      scored.before.push_back(node);
      for (const std::int32_t piece : pieces.of(ids.text(*word))) node = child(node, piece);
      scored.nodes.push_back(node);
      const auto end = word + 1;
      node = first_after_.try_emplace({end - std::min(kHistory, end - begin), end}, node).first->second;
    }
    scored.before.push_back(node);
    scored.nodes.push_back(child(node, WordPieces::kSentenceEdge));
    scored_.push_back(std::move(scored));
  }
  std::int32_t unused = 0;
  while (nodes_.size() < PieceTree::kMinNodes) unused = child(unused, WordPieces::kSentenceEdge);
  put_in_order();
}

// The child of `node` for `piece`, added if needed. A new root if `node` is -1.
std::int32_t SentenceRescoring::child(std::int32_t node, std::int32_t piece) {
  const auto at = [this](std::int32_t index) -> Node& { return nodes_[static_cast<std::size_t>(index)]; };
  if (node >= 0) {
    for (std::int32_t i = at(node).first_child; i >= 0; i = at(i).next_sibling) {
      if (at(i).piece == piece) return i;
    }
  }
  const auto added = static_cast<std::int32_t>(nodes_.size());
  nodes_.push_back({piece, node, node < 0 ? 0 : at(node).depth + 1, -1, -1});
  if (node >= 0) at(added).next_sibling = std::exchange(at(node).first_child, added);
  return added;
}

void SentenceRescoring::put_in_order() {
  places_.resize(nodes_.size());
  std::vector<std::int32_t> open{0};
  while (!open.empty()) {
    const std::int32_t index = open.back();
    open.pop_back();
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    places_[static_cast<std::size_t>(index)] = tree_.pieces.size();
    tree_.pieces.push_back(node.piece);
    const auto parent = static_cast<std::size_t>(std::max(node.parent, 0));  // the root is its own parent
    tree_.parents.push_back(static_cast<std::int64_t>(places_[parent]));
    tree_.depths.push_back(node.depth);
    for (std::int32_t i = node.first_child; i >= 0; i = nodes_[static_cast<std::size_t>(i)].next_sibling) {
      open.push_back(i);
    }
  }
  tree_.ends.resize(nodes_.size());
  for (std::size_t place = nodes_.size(); place-- > 0;) {
    tree_.ends[place] = std::max(tree_.ends[place], static_cast<std::int64_t>(place) + 1);
    if (place) {
      std::int64_t& end = tree_.ends[static_cast<std::size_t>(tree_.parents[place])];
      end = std::max(end, tree_.ends[place]);
    }
  }
}

std::optional<PieceTree> SentenceRescoring::next_part() {
  const std::size_t begin = total_.size(), size = tree_.pieces.size();
  if (begin == size) return std::nullopt;
  std::vector<std::size_t> nodes;  // In preorder, all other ancestors of the part are ancestors of its first node.
  for (std::size_t node = begin; node > 0;) nodes.push_back(node = static_cast<std::size_t>(tree_.parents[node]));
  std::reverse(nodes.begin(), nodes.end());
  num_ancestors_ = nodes.size();
  const std::size_t most = kMaxNodesOfRun - std::min(num_ancestors_, kMaxNodesOfRun * 3 / 4);
  part_end_ = size - begin < most + PieceTree::kMinNodes ? size : begin + most;
  for (std::size_t node = begin; node < part_end_; ++node) nodes.push_back(node);
  const auto place = [&](std::int64_t node) {  // in the part
    if (node >= static_cast<std::int64_t>(begin)) return node - static_cast<std::int64_t>(begin - num_ancestors_);
    return tree_.depths[static_cast<std::size_t>(node)];  // the ancestors are a path from the root
  };
  PieceTree part;
  for (const std::size_t node : nodes) {
    part.pieces.push_back(tree_.pieces[node]);
    part.parents.push_back(place(tree_.parents[node]));
    part.depths.push_back(tree_.depths[node]);
    part.ends.push_back(place(std::min(tree_.ends[node], static_cast<std::int64_t>(part_end_))));
  }
  return part;
}

void SentenceRescoring::add(const std::vector<float>& log_probs) {
  const std::size_t begin = total_.size(), num_nodes = num_ancestors_ + part_end_ - begin;
  if (log_probs.size() != num_nodes) {
    throw std::invalid_argument("the language model gave " + std::to_string(log_probs.size()) +
                                " log-probabilities for " + std::to_string(num_nodes) + " pieces");
  }
  for (std::size_t i = 1; i < num_nodes; ++i) {
    if (!(log_probs[i] <= kMost)) {
      throw std::invalid_argument("the language model gave a log-probability above 0 or NaN");
    }
  }
  for (std::size_t node = begin; node < part_end_; ++node) {
    const double before = node ? total_[static_cast<std::size_t>(tree_.parents[node])] : 0.0;
    const float own = node ? log_probs[num_ancestors_ + node - begin] : 0.0f;
    total_.push_back(before + static_cast<double>(std::clamp(own, kLeast, 0.0f)));
  }
}

// The change of the log-probability of a word, or of the end.
double SentenceRescoring::gain_of(const Scored& scored, std::size_t word) const {
  const bool with_ngrams = !scored.ngrams.empty();
  if (scored.nodes[word] == scored.before[word]) return with_ngrams ? 0.0 : kUnspelled;
  const auto at = [&](std::int32_t node) { return total_[places_[static_cast<std::size_t>(node)]]; };
  double neural = at(scored.nodes[word]) - at(scored.before[word]);
  if (word + 1 == scored.nodes.size()) neural = std::max(neural, static_cast<double>(LmFusion::kPauseLogProb));
  if (!with_ngrams) return neural;
  const auto ngram = static_cast<double>(scored.ngrams[word]);
  const double mean = share_ * std::exp(neural) + (1.0 - share_) * std::exp(ngram);
  return weight_ * std::log(std::max(mean, 1e-300)) - ngram;  // a share of 1 may leave nothing
}

std::vector<Hypothesis> SentenceRescoring::rescored() {
  const double best_before = sentences_.front().score(), last_before = sentences_[num_rescored() - 1].score();
  for (std::size_t i = 0; i < num_rescored(); ++i) {
    double gain = 0.0;
    for (std::size_t word = 0; word < scored_[i].nodes.size(); ++word) gain += gain_of(scored_[i], word);
    sentences_[i].lm_score += scale_ * gain + word_bonus_ * static_cast<double>(sentences_[i].words.size());
  }
  std::vector<std::size_t> order(num_rescored());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    const double score_a = sentences_[a].score(), score_b = sentences_[b].score();
    return score_a != score_b ? score_a > score_b : a < b;  // ties: order of the search
  });
  std::vector<Hypothesis> result;
  for (const std::size_t index : order) result.push_back(std::move(sentences_[index]));
  // Not closer to the best sentence than before.
  const double shift = std::min(result.back().score() - last_before, result.front().score() - best_before);
  for (std::size_t i = num_rescored(); i < sentences_.size(); ++i) {
    sentences_[i].lm_score += shift;
    result.push_back(std::move(sentences_[i]));
  }
  return result;
}

}  // namespace asr_stream
