// The search of one utterance after the other, whichever the options choose: greedy, beam or phrases, over letters or
// phones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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

// For one thread at a time. Errors: std::invalid_argument.
class Searcher {
 public:
  // is_last: finals come from it, so that it keeps a lattice where sentences are compared.
  Searcher(std::shared_ptr<const SegmentOptions> options, bool is_last);

  // Discards the utterance. context: of the words before the next one, or null: a sentence begins.
  void begin_utterance(const NgramLm::State* context);
  // Log-probabilities of the letters, (num_frames, tokens), and of the phones, (num_frames, phone tokens), row-major.
  // phones: null where they are not searched.
  void advance(const float* letters, const float* phones, std::int64_t num_frames);

  // Up to `num_best` hypotheses, best first, at least one. finished: the utterance has ended.
  std::vector<Hypothesis> hypotheses(std::int64_t num_best = 1, bool finished = false) const;
  bool has_lattice() const noexcept;
  // The best sentences of the lattice, see `CtcPrefixBeamSearch::sentences`.
  std::vector<Hypothesis> sentences(std::int64_t num_best) const;

  // The words of each of these hypotheses. start_s: when the search began.
  std::vector<std::vector<Word>> words(const std::vector<Hypothesis>& hypotheses, double start_s) const;
  Transcript transcript(double start_s) const;  // of the utterance so far

  // Frames since the last token of the best hypothesis, or since the start of the utterance when it is empty.
  std::int64_t num_trailing_blanks() const;
  // log P(</s>) of the language model; nothing without one.
  std::optional<double> sentence_end_log_prob() const;

  bool over_phones() const noexcept { return options_->over_phones(); }
  // Whether a token of the head that is searched begins a word, or separates two.
  bool begins_word(std::int64_t token) const;

 private:
  std::shared_ptr<const SegmentOptions> options_;
  std::variant<CtcGreedySearch, CtcPrefixBeamSearch, CtcPhraseSearch> search_;
  CtcGreedySearch letters_;  // besides a search over phones: it writes the words outside the vocabulary
};

}  // namespace asr_stream
