// CTC prefix beam search (Graves et al. 2006; Hannun et al. 2014, "First-Pass Large Vocabulary Continuous Speech
// Recognition using Bi-Directional Recurrent DNNs"), streaming.
//
// Each prefix in the beam has two probabilities: the sum over its alignments that end in blank, and the sum over those
// that end in its last token. A repeated token needs a blank in between. Each prefix also has the best single alignment
// of either kind (Viterbi), which gives token times and confidences.
//
// With `max_tokens_per_frame` = 0, each frame uses the beam_size + 1 most likely tokens. The result is exact: any other
// extension of a prefix is worse than beam_size other candidates, and extensions into prefixes that are already in the
// beam are always summed. (With a language model it is no longer strictly exact, but the results do not differ.)
//
// The score of the language model and the hotwords depends only on the prefix, not on its alignment. It affects the
// ranking of the beam and is kept separate from the summed probabilities.
//
// In a search over phones, a prefix is also a sequence of words. When a token ends a word, there is one prefix for each
// word with this pronunciation.
//
// Two prefixes have the same future scores if they end in the same token and have the same state of the language model
// and the hotwords (last words, incomplete word, hotword). The worse one can then never win. `recombine` keeps only the
// better one, as decoders over a graph do.
//
// `lattice` also keeps the worse prefixes and their score differences. Each is an alternative beginning of the better
// prefix, so the search ends with a lattice. `sentences` are its paths.
//
// Memory: nodes are reused when no hypothesis needs them. The hypotheses since the last reset remain, with common
// prefixes stored once, at about 60 bytes per token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "options.h"
#include "search/ctc_search.h"
#include "search/lm_fusion.h"
#include "search/prefix_tree.h"

namespace asr_stream {

// In nats below the best sentence. Sentences of the lattice that score worse are hardly ever right.
inline constexpr double kLatticeBeam = 14.0;

struct CtcPrefixBeamSearchOptions {
  std::int32_t beam_size = kBeamSize;     // 1 .. 1024
  std::int32_t max_tokens_per_frame = 0;  // 0: beam_size + 1, which is exact
  double beam_threshold = 0.0;            // candidates this far below the best are dropped; 0: none are
  bool recombine = false;                 // with a language model
  bool lattice = false;                   // keeps what recombination drops
};

// Not thread-safe. Throws std::invalid_argument for invalid input.
class CtcPrefixBeamSearch {
 public:
  // fusion: the language model and the hotwords to search with; may be null.
  explicit CtcPrefixBeamSearch(const CtcPrefixBeamSearchOptions& options = {},
                               std::shared_ptr<const LmFusion> fusion = nullptr);

  // log_probs: (num_frames, vocab_size), row-major.
  void advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size);

  // Returns at least one and at most `num_best` hypotheses, best first. log_prob sums over the alignments that were
  // kept. finished: the utterance has ended, so the language model scores its last word as complete, and the sentence
  // end.
  std::vector<Hypothesis> hypotheses(std::int64_t num_best = 1, bool finished = false) const;

  // The same for a finished utterance, from the lattice: up to `num_best` sentences that differ in their words, or in
  // their tokens if words are unknown, and that score at most kLatticeBeam below the best.
  std::vector<Hypothesis> sentences(std::int64_t num_best) const;
  bool has_lattice() const noexcept { return options_.lattice; }

  // Discards the hypotheses of this utterance. context: the state after the words before the next utterance, if the
  // pause may have been inside a sentence (see `LmFusion::begin`); null: a new sentence begins.
  void reset(const NgramLm::State* context = nullptr);

  std::int64_t num_frames() const noexcept { return num_frames_; }
  // Frames since the last token of the best hypothesis, or since the start of the utterance if it is empty.
  std::int64_t num_trailing_blanks() const noexcept;
  // The language model's log P(</s>), averaged over the likely hypotheses; none without a language model.
  std::optional<double> sentence_end_log_prob() const;

  // Nodes in use, for memory tests.
  std::size_t num_prefixes() const noexcept { return prefixes_.num_nodes(); }
  std::size_t num_histories() const noexcept { return histories_.num_nodes(); }

 private:

  // The best alignment of a prefix. `history` has the spans of all its tokens except the last.
  struct Alignment {
    double log_prob = kNever;
    std::int32_t history = SharedLists<TokenSpan>::kEmpty;
    TokenSpan last{0, 0, 0.0};
  };

  struct Entry {
    std::int32_t prefix = PrefixTree::kRoot;
    double log_prob = 0.0;  // sum of the two below
    double log_prob_blank = 0.0;
    double log_prob_token = kNever;
    Alignment blank;
    Alignment token;
    LmFusion::Path lm{};
    std::int32_t endings = -1;  // index in endings_, assigned on demand

    const Alignment& best_alignment() const { return blank.log_prob >= token.log_prob ? blank : token; }
  };

  // An entry's prefix, kept (token < 0) or extended by a token.
  struct Candidate {
    double score;  // log_prob plus the fusion score
    double log_prob;
    double log_prob_blank;
    double log_prob_token;
    std::int32_t source;
    std::int32_t token;
    LmFusion::Path lm;
    std::int32_t word = LmFusion::kNoWord;  // the word that ends where the token begins
  };

  // A hypothesis that reached the same state as a better one.
  struct Merge {
    std::int32_t into;    // prefix of the better one
    std::int32_t prefix;  // its own
    double log_prob, lm_score, hotword_score;  // the better one's minus its own
    Alignment alignment;
    std::int64_t frame;
    std::int32_t next;  // an earlier merge into the same prefix, or -1

    double cost() const { return log_prob + lm_score + hotword_score; }
  };

  // Steps backwards through the tokens of a prefix along an alignment.
  struct Walk {
    std::int32_t prefix;
    TokenSpan span;  // of the last token of `prefix`
    std::int32_t history;
  };
  static Walk walk(std::int32_t prefix, const Alignment& alignment) {
    return {prefix, alignment.last, alignment.history};
  }
  void step_back(Walk& walk) const;

  // A path through the lattice, followed from its end: either the prefix of an ending in the beam, or another route up
  // to a merge that leads to a different beginning.
  struct Route {
    double score;
    std::int32_t ending;   // index in the result of `ends`
    std::int32_t before;   // index of the route it branches from, or -1
    std::int32_t merge;    // index in `merges_`, or -1
  };
  struct End {
    LmFusion::Ending ending;
    const Entry* entry;
    double score;
  };

  void advance_frame(const float* log_probs, std::int32_t vocab_size);
  void choose_tokens(const float* log_probs, std::int32_t vocab_size);
  void find_relatives();
  void propose(const float* log_probs);
  void rank_tokens(const float* log_probs, double lowest);
  const std::vector<LmFusion::Ending>& endings(Entry& entry);
  void propose_extensions(std::size_t index, const float* log_probs, double lowest);
  bool is_in_beam(std::size_t parent, std::int32_t token, std::int32_t word) const;
  void select();
  std::int32_t better_of_same_future(const Candidate& candidate);
  bool same_words(std::int32_t a, std::int32_t b) const;
  void keep_merge(const Candidate& candidate, const Entry& better, const float* log_probs);
  std::vector<End> ends(bool finished) const;
  Hypothesis hypothesis_of(const End& end, const std::vector<std::int32_t>& merges, bool finished) const;
  Entry keep(const Candidate& candidate, const float* log_probs);  // moves the endings out of the entry
  Entry extend(const Candidate& candidate, const float* log_probs);

  std::int32_t last_token(const Entry& entry) const {
    return entry.prefix == PrefixTree::kRoot ? -1 : prefixes_.last_token(entry.prefix);
  }
  // A prefix can be extended by its own last token only after a blank.
  double extension_source(const Entry& entry, std::int32_t token) const {
    return token == last_token(entry) ? entry.log_prob_blank : entry.log_prob;
  }
  const Alignment& alignment_source(const Entry& entry, std::int32_t token) const {
    return token == last_token(entry) ? entry.blank : entry.best_alignment();
  }
  Alignment start_token(const Entry& entry, std::int32_t token, double log_prob);
  void release(const Entry& entry);

  std::int32_t last_token(const Candidate& candidate) const {
    return candidate.token >= 0 ? candidate.token : last_token(beam_[static_cast<std::size_t>(candidate.source)]);
  }

  double fusion_score(const LmFusion::Path& path) const {
    return fusion_ ? static_cast<double>(path.score()) : 0.0;
  }

  CtcPrefixBeamSearchOptions options_;
  std::shared_ptr<const LmFusion> fusion_;
  LookAhead::Cache look_ahead_cache_;
  LogProbChecker checker_;
  std::int64_t num_frames_ = 0;
  std::int64_t utterance_start_ = 0;
  PrefixTree prefixes_;
  SharedLists<TokenSpan> histories_;
  std::vector<Entry> beam_;  // best first
  std::vector<Merge> merges_;
  std::vector<std::int32_t> first_merges_;  // by the prefix merged into: the latest merge, or -1
  std::vector<std::vector<LmFusion::Ending>> endings_;  // cached for the entries
  std::vector<std::int32_t> free_endings_;
  // For the current frame; members only to reuse their memory.
  std::vector<Entry> next_beam_;
  std::vector<std::int32_t> tokens_;   // the most likely ones, without blank
  std::vector<std::pair<double, std::int32_t>> ranked_tokens_;  // with the maximum each adds to a score, best first
  std::vector<std::int32_t> entries_;  // beam index of each node of the prefix tree, or -1
  std::vector<std::int32_t> parents_;  // beam index of the parent prefix of each entry, or -1
  std::vector<std::int32_t> first_children_, next_siblings_;  // the inverse of parents_
  std::vector<char> is_child_;         // by token: whether this extension is already in the beam
  std::vector<Candidate> candidates_;
  std::vector<std::pair<double, const Candidate*>> ranking_;  // with a copy of the score, for speed
  std::vector<const Candidate*> selected_;  // best first
  std::vector<std::pair<const Candidate*, std::int32_t>> merged_;  // with the index of the better one in `selected_`
  std::vector<std::int32_t> buckets_, next_in_bucket_;  // hash table of `selected_` by future, chained
};

}  // namespace asr_stream
