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
// logistic map of how certain its least certain token was (a word is wrong as soon as one of its tokens is) and its
// tokens in the mean (or one letter would decide on a long word).
struct Word {
  std::string text;
  double start_s;
  double end_s;
  float confidence;
};

// The words of a hypothesis, whose frames count from `start_s`.
//
// CTC emits a token later than it was spoken. Against the known times of words from a synthesizer, and the edges of
// pauses in read speech, words end a frame late; they begin on time after a pause
// and 0.1 s late in fluent speech, where their beginning is the end of the word before. So ends are set a frame
// earlier, and a word that follows within kFluentFrames begins where the one before it ends.
// (benchmarks/word_times.py measures it.)
//
// map: of the model, and of the search: with a language model right words have less certain tokens.
// tokens: UTF-8 spelling of every token id; "▁" (U+2581) begins a word, as in SentencePiece, or is a token of its
// own between words; empty for one that writes nothing.
// std::invalid_argument for a token id outside `tokens`.
std::vector<Word> words(const Hypothesis& hypothesis, const std::vector<std::string>& tokens,
                        const ConfidenceMap& map, double start_s = 0.0);

// The words of a hypothesis of a search over phones. letters: the greedy hypothesis of the letter head for the same
// audio; tokens: spelling of its tokens. A word outside the vocabulary is written with the letters at its time. Words
// without letters, and an incomplete word that matches no word yet, are left out.
std::vector<Word> words(const Hypothesis& hypothesis, const LmFusion& fusion, const Hypothesis& letters,
                        const std::vector<std::string>& tokens, const Calibration& calibration,
                        double start_s = 0.0);

// Whether a token begins a word, or stands between two.
bool begins_word(std::string_view token);

// How many leading words of both are spelled alike.
std::size_t num_alike(const std::vector<Word>& a, const std::vector<Word>& b);

// The words with a space between them, but where a line breaks.
std::string join(const std::vector<Word>& words);

// Index of the best hypothesis by ctc_weight * first pass + (1 - ctc_weight) * decoder score: the second pass of Zhang
// et al. 2020, "Unified streaming and non-streaming two-pass end-to-end model". Both are log-probabilities of the
// whole sentence; the first is that of CTC and what a language model adds to it. The boosts of hotwords count in full,
// and the decoder, which has no hotwords, removes none: only hypotheses with as much of them as the best one of the
// first pass can win. Of equals the first one wins.
// std::invalid_argument for no hypotheses, another number of scores, or a weight outside [0, 1].
std::size_t best_rescored(const std::vector<Hypothesis>& hypotheses, const std::vector<float>& decoder_scores,
                          double ctc_weight);

}  // namespace asr_stream
