// CTC search over a closed list of phrases (see `Phrases`), streaming: token passing over their trie (Young et al. 1989,
// "Token passing: a simple conceptual model for connected speech recognition systems"), by best alignments.
//
// What is in no phrase goes by a path of its own, [unk], which follows the likeliest token of every frame and pays for
// each one: on-line garbage (Bourlard et al. 1994, "Optimizing recognition and rejection performance in wordspotting
// systems"). A phrase wins where its spelling costs less than that against what was heard. Between a phrase and [unk]
// there is a border between words: neither takes the other's half of a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "search/ctc_search.h"
#include "search/phrases.h"
#include "search/prefix_tree.h"

namespace asr_stream {

// For one thread at a time. Errors: std::invalid_argument.
class CtcPhraseSearch {
 public:
  explicit CtcPhraseSearch(std::shared_ptr<const Phrases> phrases, std::int32_t blank_id = 0);

  // log_probs: (num_frames, vocab_size), row-major.
  void advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size);

  // Up to `num_best` hypotheses, best first, never none, in the tokens of `Phrases`. finished: of whole phrases and [unk]
  // alone; until then a phrase under way counts, with its whole words. Two may differ in what is under way alone.
  std::vector<Hypothesis> hypotheses(std::int64_t num_best = 1, bool finished = false) const;

  // Forgets this utterance.
  void reset();

  std::int64_t num_frames() const noexcept { return num_frames_; }
  // Frames since the last token of the best hypothesis, or since the start of the utterance when it is empty.
  std::int64_t num_trailing_blanks() const noexcept;

  // For tests of memory and speed.
  std::size_t num_histories() const noexcept { return histories_.num_nodes(); }
  std::size_t num_places() const noexcept { return places_.size(); }

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();
  // Places that are no step of the phrases.
  static constexpr std::int32_t kStart = -1;
  static constexpr std::int32_t kUnknown = -2;

  struct Spoken {
    std::int32_t token;
    TokenSpan span;
  };
  // The best alignment that ends at a place, in blank or in its token.
  struct Way {
    double score = kNever;
    std::int32_t history = SharedLists<Spoken>::kEmpty;  // without the last token
    TokenSpan last{0, 0, 0.0};
  };
  struct Place {
    std::int32_t step;
    Way blank, token;

    const Way& best() const { return blank.score >= token.score ? blank : token; }
  };
  // How a place is best reached in the frame at work: from a place before, along its way.
  struct Arrival {
    double score = kNever;
    const Place* from = nullptr;
    const Way* way = nullptr;  // null: both are kNever
    bool starts = false;       // a token
  };
  struct Next {
    std::int32_t step;
    Arrival blank, token;
  };

  void advance_frame(const float* log_probs);
  void stay(const Place& place, const float* log_probs);
  void leave(const Place& place, const float* log_probs, double lowest);
  void enter(const Place& place, std::int32_t node, const float* log_probs, double lowest);
  void arrive(std::int32_t step, const Arrival& arrival, bool in_blank);
  Way follow(const Arrival& arrival);
  void release(const Place& place);

  std::int32_t token_at(std::int32_t step) const {
    return step == kUnknown ? phrases_->unknown_token() : phrases_->step(step).token;
  }
  bool is_final(const Place& place) const;
  static bool better(const Place* a, const Place* b);
  Hypothesis hypothesis(const Place& place) const;

  std::shared_ptr<const Phrases> phrases_;
  LogProbChecker checker_;
  std::int64_t num_frames_ = 0;
  std::int64_t utterance_start_ = 0;
  SharedLists<Spoken> histories_;
  std::vector<Place> places_;
  std::int32_t last_heard_ = 0;  // the likeliest token of the frame before
  // Of the frame at work, kept for their memory.
  std::int32_t heard_ = 0;   // its likeliest token
  std::int32_t border_ = 0;  // of those that begin a word
  std::vector<Next> next_;
  std::vector<Place> next_places_;
  std::vector<std::int32_t> next_of_;  // by step + 2: index in `next_`, or -1
};

}  // namespace asr_stream
