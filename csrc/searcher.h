// Searches one utterance after another with the algorithm that the options select: greedy, beam or phrases, over
// letters or phones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "search/ctc_greedy_search.h"
#include "search/ctc_phrase_search.h"
#include "search/ctc_prefix_beam_search.h"
#include "search/words.h"
#include "segment_options.h"

namespace asr_stream {

// The best hypothesis of a search, and its words.
struct Transcript {
  Hypothesis hypothesis;
  std::vector<Word> words;
};

// Not thread-safe. Throws std::invalid_argument for invalid input.
class Searcher {
 public:
  // is_last: finals come from this search, so it keeps a lattice if sentences are compared.
  Searcher(std::shared_ptr<const SegmentOptions> options, bool is_last);

  // Discards the utterance. context: the state after the words before the next utterance; null: a sentence begins.
  void begin_utterance(const NgramLm::State* context);
  // Row-major log-probabilities: letters (num_frames, tokens) and phones (num_frames, phone tokens). phones: null if
  // the search is not over phones.
  void advance(const float* letters, const float* phones, std::int64_t num_frames);

  // Returns at least one and at most `num_best` hypotheses, best first. finished: the utterance has ended.
  std::vector<Hypothesis> hypotheses(std::int64_t num_best = 1, bool finished = false) const;
  bool has_lattice() const noexcept;
  // At most `num_best` sentences of a finished utterance, best first: of the lattice if there is one.
  std::vector<Hypothesis> sentences(std::int64_t num_best) const;
  // Sets `words` of hypotheses of a search by spelling. Those of the other search have them.
  void set_words(std::vector<Hypothesis>& hypotheses, WordIds& ids) const;

  // The words of each hypothesis. position: of the stream, in samples, at which the search began.
  std::vector<std::vector<Word>> words(const std::vector<Hypothesis>& hypotheses, std::int64_t position) const;
  Transcript transcript() const;  // of the utterance so far; times from the start of the search

  // Frames since the last token of the best hypothesis, or since the start of the utterance if it is empty.
  std::int64_t num_trailing_blanks() const;
  // log P(</s>) of the language model; none without one.
  std::optional<double> sentence_end_log_prob() const;

  bool over_phones() const noexcept { return options_->over_phones(); }
  // Whether the tokens of a hypothesis spell its words.
  bool by_spelling() const noexcept { return !over_phones() || options_->phrases; }
  // Whether a token of the searched head begins a word or separates two words.
  bool begins_word(std::int64_t token) const;

 private:
  const std::vector<std::string>& spellings() const;  // of the tokens of a search by spelling

  std::shared_ptr<const SegmentOptions> options_;
  std::variant<CtcGreedySearch, CtcPrefixBeamSearch, CtcPhraseSearch> search_;
  std::int64_t utterance_start_ = 0;  // frame
  CtcGreedySearch letters_;  // next to a search over phones, to spell words outside the vocabulary
};

}  // namespace asr_stream
