// Streaming CTC search over a grammar of phrases (see `Phrases`): token passing over their trie (Young et al. 1989,
// "Token passing: a simple conceptual model for connected speech recognition systems"). Each state keeps its best
// alignment (Viterbi). The number of states is limited, and so is the time per frame.
//
// Speech outside the phrases goes to a garbage model, [unk], which follows the most likely token of every frame and
// pays a cost for each token (Bourlard et al. 1994, "Optimizing recognition and rejection performance in wordspotting
// systems"). A phrase wins if its tokens cost less. Transitions between a phrase and [unk] are allowed only at word
// boundaries.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "search/ctc_search.h"
#include "search/phrases.h"
#include "search/prefix_tree.h"

namespace asr_stream {

// Not thread-safe. Throws std::invalid_argument for invalid input.
class CtcPhraseSearch {
 public:
  explicit CtcPhraseSearch(std::shared_ptr<const Phrases> phrases);

  // log_probs: (num_frames, vocab_size), row-major.
  void advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size);

  // Returns at least one and at most `num_best` hypotheses, best first, as indexes into `Phrases::tokens`. finished:
  // the hypotheses contain only complete phrases and [unk]. Otherwise an incomplete phrase contributes its complete
  // words, so two hypotheses may have the same tokens.
  std::vector<Hypothesis> hypotheses(std::int64_t num_best = 1, bool finished = false) const;

  // Discards this utterance.
  void reset();

  std::int64_t num_frames() const noexcept { return num_frames_; }
  // Frames since the last token of the best hypothesis, or since the start of the utterance if it is empty.
  std::int64_t num_trailing_blanks() const noexcept;

  // For tests of memory and speed.
  std::size_t num_histories() const noexcept { return histories_.num_nodes(); }
  std::size_t num_states() const noexcept { return states_.size(); }

 private:
  // States outside the trie.
  static constexpr std::int32_t kStart = -1;
  static constexpr std::int32_t kUnknown = -2;

  struct PastToken {
    std::int32_t output;
    TokenSpan span;
  };
  // The best alignment that ends in a state.
  struct Alignment {
    double score = kNever;
    std::int32_t history = SharedLists<PastToken>::kEmpty;  // without the last token
    TokenSpan last{0, 0, 0.0};
  };
  struct State {
    std::int32_t step;      // step of the trie, kStart or kUnknown
    Alignment blank, token;  // by whether the last frame is a blank

    const Alignment& best() const { return blank.score >= token.score ? blank : token; }
  };
  // The best transition into a state in the current frame.
  struct Transition {
    double score = kNever;
    const State* from = nullptr;
    const Alignment* alignment = nullptr;  // null: both are kNever
    bool starts = false;                  // whether it starts a new token
  };
  struct Candidate {
    std::int32_t step;
    Transition blank, token;

    double score() const { return std::max(blank.score, token.score); }
  };

  void advance_frame(const float* log_probs);
  void propose_stay(const State& state, const float* log_probs);
  void propose_exits(const State& state, const float* log_probs, double lowest);
  void propose_entries(const State& state, std::int32_t node, const float* log_probs, double lowest);
  void propose(std::int32_t step, const Transition& transition, bool in_blank);
  Alignment extended(const Transition& transition);
  void release(const State& state);

  std::int32_t token_at(std::int32_t step) const { return phrases_->step(step).token; }
  std::int32_t output_at(std::int32_t step) const {
    return step == kUnknown ? phrases_->unknown_token() : phrases_->step(step).output;
  }
  bool is_final(const State& state) const;
  static bool better(const State* a, const State* b);
  Hypothesis hypothesis(const State& state) const;

  std::shared_ptr<const Phrases> phrases_;
  LogProbChecker checker_;
  std::int64_t num_frames_ = 0;
  std::int64_t utterance_start_ = 0;
  SharedLists<PastToken> histories_;
  std::vector<State> states_;
  std::int32_t previous_likeliest_ = 0;  // the likeliest token of the previous frame
  // For the current frame.
  std::int32_t likeliest_ = 0;   // token
  std::int32_t word_start_ = 0;  // the likeliest token that begins a word, or -1
  std::vector<Candidate> candidates_;
  std::vector<double> scores_;
  std::vector<State> next_states_;
  std::vector<std::int32_t> candidate_of_step_;  // by step + 2: index in `candidates_`, or -1
};

}  // namespace asr_stream
