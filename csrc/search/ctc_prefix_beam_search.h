// CTC prefix beam search (Graves et al. 2006; Hannun et al. 2014, "First-Pass Large Vocabulary Continuous Speech
// Recognition using Bi-Directional Recurrent DNNs"), streaming.
//
// Each prefix in the beam has the probability of all its alignments that end in blank and of all that end in its last
// token; a repeated token needs a blank between. It also has the best single alignment of either kind (Viterbi), which
// gives token times and confidences.
//
// With `max_tokens_per_frame` = 0 each frame uses the beam_size + 1 most likely tokens. That loses nothing: any other
// extension of a prefix is worse than beam_size other candidates, and extensions into prefixes that are already in the
// beam are always summed. (With a language model this no longer holds exactly, but makes no difference.)
//
// The score of the language model and the hotwords depends only on the prefix, not on its alignment. It ranks the beam
// and is kept separate from the probabilities that are summed.
//
// In a search over phones a prefix is also a sequence of words: if a token ends a word, there is a prefix for each word
// with this pronunciation.
//
// Two prefixes that end in the same token and have the same state of the language model and the hotwords (last words,
// incomplete word, hotword) have the same future scores, so the worse one cannot win: `recombine` keeps only the better
// one, like decoders over a graph.
//
// `lattice` also keeps the worse ones, with their score difference: each is an alternative beginning of the better one,
// so the search ends with a lattice, whose paths are `sentences`.
//
// Memory: nodes are reused when no hypothesis needs them. What remains is the hypotheses since the last reset, with
// common prefixes stored once, at about 60 bytes per token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "options.h"
#include "search/ctc_search.h"
#include "search/lm_fusion.h"
#include "search/prefix_tree.h"

namespace asr_stream {

// Nats below the best sentence: a worse one of the lattice is hardly ever right.
inline constexpr double kLatticeBeam = 14.0;

struct CtcPrefixBeamSearchOptions {
  std::int32_t beam_size = kBeamSize;     // 1 .. 1024
  std::int32_t max_tokens_per_frame = 0;  // 0: beam_size + 1, which is exact
  double beam_threshold = 0.0;            // what scores this much less than the best is dropped; 0: nothing
  bool recombine = false;                 // with a language model
  bool lattice = false;                   // keeps what recombination drops
};

// For one thread at a time. Errors: std::invalid_argument.
class CtcPrefixBeamSearch {
 public:
  // fusion: the language model and the hotwords to search with, or none.
  explicit CtcPrefixBeamSearch(const CtcPrefixBeamSearchOptions& options = {},
                               std::shared_ptr<const LmFusion> fusion = nullptr);

  // log_probs: (num_frames, vocab_size), row-major.
  void advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size);

  // Up to `num_best` hypotheses, best first, at least one. log_prob sums over the alignments kept. finished: the
  // utterance has ended, so that the language model scores its last word as complete, and the sentence end.
  std::vector<Hypothesis> hypotheses(std::int64_t num_best = 1, bool finished = false) const;

  // The same of an utterance that has ended, from the lattice: of sentences of different words, or tokens where words
  // are not known, up to `num_best` that score at most kLatticeBeam less than the best.
  std::vector<Hypothesis> sentences(std::int64_t num_best) const;
  bool has_lattice() const noexcept { return options_.lattice; }

  // Discards the hypotheses of this utterance. context: of the words before the next one, where a pause may have been
  // inside a sentence (see `LmFusion::begin`); null: a sentence begins.
  void reset(const NgramLm::State* context = nullptr);

  std::int64_t num_frames() const noexcept { return num_frames_; }
  // Frames since the last token of the best hypothesis, or since the start of the utterance when it is empty.
  std::int64_t num_trailing_blanks() const noexcept;
  // log P(</s>) of the language model, the mean over the likely hypotheses; nothing without one.
  std::optional<double> sentence_end_log_prob() const;

  // Nodes in use, for tests of memory.
  std::size_t num_prefixes() const noexcept { return prefixes_.num_nodes(); }
  std::size_t num_histories() const noexcept { return histories_.num_nodes(); }

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  // The best alignment of a prefix: the spans of all its tokens but the last, and the last.
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
    std::int32_t endings = -1;  // place in endings_, once it is needed

    const Alignment& best_alignment() const { return blank.log_prob >= token.log_prob ? blank : token; }
  };

  // The prefix of an entry kept (token < 0) or extended by a token.
  struct Candidate {
    double score;  // log_prob and what fusion adds
    double log_prob;
    double log_prob_blank;
    double log_prob_token;
    std::int32_t source;
    std::int32_t token;
    LmFusion::Path lm;
    std::int32_t word = LmFusion::kNoWord;  // that the token ends
  };

  // A hypothesis that ended in the state of a better one.
  struct Merge {
    std::int32_t into;    // prefix of the better one
    std::int32_t prefix;  // its own
    double log_prob, lm_score, hotword_score;  // what it has less than the better one
    Alignment alignment;
    std::int64_t frame;
    std::int32_t next;  // merge into the same prefix, an earlier one, or -1

    double cost() const { return log_prob + lm_score + hotword_score; }
  };

  // Backwards through the tokens of an alignment of a prefix.
  struct Walk {
    std::int32_t prefix;
    TokenSpan span;  // of its last token
    std::int32_t history;
  };
  static Walk walk(std::int32_t prefix, const Alignment& alignment) {
    return {prefix, alignment.last, alignment.history};
  }
  void step_back(Walk& walk) const;

  // A path through the lattice from its end: the prefix of an ending of the beam, or of a route up to where a merge
  // leads to another beginning.
  struct Route {
    double score;
    std::int32_t ending;   // of the search
    std::int32_t before;   // route, or -1
    std::int32_t merge;    // or -1
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
  bool same_future(const Candidate& a, const Candidate& b) const;
  std::int32_t better_of_same_future(const Candidate& candidate);
  bool same_words(std::int32_t a, std::int32_t b) const;
  void keep_merge(const Candidate& candidate, const Entry& better, const float* log_probs);
  std::vector<End> ends(bool finished) const;
  Hypothesis hypothesis_of(const End& end, const std::vector<std::int32_t>& merges, bool finished) const;
  Entry keep(const Candidate& candidate, const float* log_probs);  // takes the endings of the entry
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
  std::vector<std::int32_t> first_merges_;  // by the prefix that they led into, the last one first, or -1
  std::vector<std::vector<LmFusion::Ending>> endings_;  // of entries, asked for once
  std::vector<std::int32_t> free_endings_;
  // For the current frame; members only to reuse their memory.
  std::vector<Entry> next_beam_;
  std::vector<std::int32_t> tokens_;   // the likeliest, without blank
  std::vector<std::pair<double, std::int32_t>> ranked_tokens_;  // with the most that each adds to a score, best first
  std::vector<std::int32_t> entries_;  // beam index of each node of the prefix tree, or -1
  std::vector<std::int32_t> parents_;  // beam index of the parent prefix of each entry, or -1
  std::vector<std::int32_t> first_children_, next_siblings_;  // the same, the other way round
  std::vector<char> is_child_;         // by token: such an extension is in the beam already
  std::vector<Candidate> candidates_;
  std::vector<std::pair<double, const Candidate*>> ranking_;  // with the score, which is read often
  std::vector<const Candidate*> selected_;  // best first
  std::vector<std::pair<const Candidate*, std::int32_t>> merged_;  // and the place of the better one in `selected_`
  std::vector<std::int32_t> buckets_, next_in_bucket_;  // hash table of `selected_` by future, chained
};

}  // namespace asr_stream
