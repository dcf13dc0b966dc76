// Rescoring the sentences of an utterance with a neural language model (asr/neural_lm).
//
// The model reads word pieces. The sentences share most of their words, so they are evaluated as one tree of pieces in
// one run: each node attends only to its ancestors (tree attention, as in Miao et al. 2024, "SpecInfer"). Sentences
// with the same last words share the nodes that follow, with the history of the better sentence (as in Liu et al. 2014,
// "Efficient lattice rescoring using recurrent neural network language models"). The probability of each word is
// interpolated with that of the n-gram model of the search, if it has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "calibration.h"
#include "search/ctc_search.h"
#include "search/lm_fusion.h"
#include "search/words.h"
#include "work.h"

namespace asr_stream {

class MetadataEntries;

// Splits words into pieces. Immutable.
class WordPieces {
 public:
  static constexpr std::int32_t kSentenceEdge = 2;  // begins and ends an utterance

  // pieces: spelling of every id; "▁" (U+2581) begins a word. Throws std::invalid_argument unless there are the 3
  // special pieces and at least one other, without duplicates.
  explicit WordPieces(const std::vector<std::string>& pieces);

  // The pieces of a word, found by longest match; none if it cannot be spelled.
  std::vector<std::int32_t> of(std::string_view word) const;

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
  std::size_t longest_ = 0;
};

// The input of one run of the neural language model. Nodes are in preorder, so the descendants of a node follow it.
// Node 0 is the root and its own parent.
struct PieceTree {
  static constexpr std::size_t kMinNodes = 8;  // the graph divides the nodes into eighths (export/neural_lm.py)

  std::vector<std::int64_t> pieces;
  std::vector<std::int64_t> parents;
  std::vector<std::int64_t> depths;
  std::vector<std::int64_t> ends;  // index after the last descendant of each node
};

// Output: log_probs (num_nodes,), of each piece given those before it. The value of the root is ignored.
Work tree_work(const PieceTree& tree);

// The metadata of a file written by `asr export`. Immutable.
struct NeuralLmMetadata {
  // Throws std::invalid_argument with the entry and a remedy.
  explicit NeuralLmMetadata(const std::map<std::string, std::string>& properties);

  WordPieces pieces;
  // Both apply only with n-grams; without them, see `NeuralLmWeights`.
  double share;   // interpolation weight of this model in the probability of a word; the n-grams have the rest
  double weight;  // scales the log of the interpolated probability, relative to the n-gram weight of the search

 private:
  explicit NeuralLmMetadata(const MetadataEntries& entries);
};

inline constexpr std::int64_t kNumSentences = 200;  // of an utterance; more do not reduce errors
inline constexpr double kRescoringBeam = 5.0;       // sentences at most this many nats below the best are rescored
inline constexpr std::size_t kMaxNodes = 800;       // approximate maximum per tree; limits the latency of finals
// Approximate maximum per run, so that one of a server's streams does not delay others by more than 30 ms. Several runs
// take no longer than one: the time for attention grows with the square.
inline constexpr std::size_t kMaxNodesOfRun = 256;

// The sentences of one utterance while the model scores them.
class SentenceRescoring {
 public:
  // ngrams: of the search; null without a language model, then `weights` apply. sentences: best first; ids: of their
  // words. context: the words of the previous utterance, or none. before: the n-gram state after them, or null.
  SentenceRescoring(const LmFusion* ngrams, const NeuralLmMetadata& lm, const NeuralLmWeights& weights,
                    std::vector<Hypothesis> sentences, const WordIds& ids, const std::vector<std::string>& context,
                    const NgramLm::State* before);

  // The next part of the tree to be run: nodes that have no log-probability yet, after their ancestors. None after the
  // last one.
  std::optional<PieceTree> next_part();
  // log_probs: of each node of the part given its parent, (num_nodes,). Throws std::invalid_argument, and changes
  // nothing, for another number of them, and for one that is above 0 or NaN.
  void add(const std::vector<float>& log_probs);
  std::size_t num_rescored() const noexcept { return scored_.size(); }
  // After the last part. Returns the first `num_rescored()` sentences with new `lm_score`, best first, and then the
  // others, which are too unlikely to be scored: their `lm_score` changes by one number, so that none of them overtakes
  // a rescored one.
  std::vector<Hypothesis> rescored();
  std::vector<Hypothesis> take_sentences() { return std::move(sentences_); }  // without new scores

 private:
  struct Scored {
    std::vector<float> ngrams;        // log-probabilities of the words and of the end; empty without n-grams
    std::vector<std::int32_t> nodes;  // last node of each word, and of the end
    std::vector<std::int32_t> before;  // the node before each word
  };

  struct Node {
    std::int32_t piece, parent, depth, first_child, next_sibling;
  };

  std::int32_t child(std::int32_t node, std::int32_t piece);
  void put_in_order();
  double gain_of(const Scored& scored, std::size_t word) const;

  double share_, weight_;
  double scale_;       // of all log-probabilities: the n-gram weight of the search, or the weight without n-grams
  double word_bonus_;  // 0 with n-grams, whose search has added it
  std::vector<Hypothesis> sentences_;
  std::vector<Scored> scored_;  // of the first sentences
  std::vector<Node> nodes_;
  std::map<std::vector<std::int32_t>, std::int32_t> first_after_;  // first node after these words
  PieceTree tree_;
  std::vector<std::size_t> places_;  // positions of the nodes in the tree
  std::vector<double> total_;        // log-probabilities from the root to each node of the tree, as far as it was run
  std::size_t num_ancestors_ = 0, part_end_ = 0;  // of the current part: its first nodes, and its end in the tree
};

}  // namespace asr_stream
