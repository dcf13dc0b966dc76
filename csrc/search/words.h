// From tokens to words, with times and confidence, and the choice between hypotheses.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "calibration.h"
#include "contract.h"
#include "search/ctc_search.h"
#include "search/lm_fusion.h"

namespace asr_stream {

// A recognized word, in seconds of the stream. Its confidence, in (0, 1), is the probability that it is right: a
// logistic map of the confidence of its least certain token (one wrong token makes the word wrong) and of the mean over
// its tokens (so that a single letter does not decide on a long word).
struct Word {
  std::string text;
  double start_s;
  double end_s;
  float confidence;
};

// The words of a hypothesis, whose frames count from `start_s`.
//
// CTC emits a token later than it was spoken. Compared with the known times of synthesized words, and the edges of
// pauses in read speech, words end a frame late; they begin on time after a pause and 0.1 s late in fluent speech,
// where their beginning is the end of the previous word. So ends are moved a frame earlier, and a word that follows
// within kFluentFrames begins at the end of the previous one. (benchmarks/word_times.py measures it.)
//
// map: of the model, and of the search: with a language model right words have less certain tokens.
// tokens: UTF-8 spelling of every token id; "▁" (U+2581) begins a word, as in SentencePiece, or is a separate token
// between words; empty for one that is not part of text.
// Throws std::invalid_argument for a token id outside `tokens`.
std::vector<Word> words(const Hypothesis& hypothesis, const std::vector<std::string>& tokens,
                        const ConfidenceMap& map, double start_s = 0.0);

// The words of a hypothesis of a search over phones. letters: the greedy hypothesis of the letter head for the same
// audio; tokens: spelling of its tokens. A word outside the vocabulary is spelled with the letters at its time. Words
// without letters, and an incomplete word that does not match any word yet, are omitted.
std::vector<Word> words(const Hypothesis& hypothesis, const LmFusion& fusion, const Hypothesis& letters,
                        const std::vector<std::string>& tokens, const Calibration& calibration,
                        double start_s = 0.0);

// Whether a token begins a word, or separates two.
bool begins_word(std::string_view token);

// The number of leading words that are spelled alike in both.
std::size_t num_alike(const std::vector<Word>& a, const std::vector<Word>& b);

// The words joined by spaces, or by their line breaks.
std::string join(const std::vector<Word>& words);

// Index of the best hypothesis by ctc_weight * first pass + (1 - ctc_weight) * decoder score: the second pass of Zhang
// et al. 2020, "Unified streaming and non-streaming two-pass end-to-end model". Both are log-probabilities of the whole
// sentence; the first includes the language model's contribution. The boosts of hotwords count in full, and the
// decoder, which does not know hotwords, cannot remove them: only hypotheses with as much boost as the best of the
// first pass can win. In a tie the first one wins. Throws std::invalid_argument for no hypotheses, another number of
// scores, or a weight outside [0, 1].
std::size_t best_rescored(const std::vector<Hypothesis>& hypotheses, const std::vector<float>& decoder_scores,
                          double ctc_weight);

}  // namespace asr_stream
