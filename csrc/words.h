// From tokens to words, with times and confidence, and the choice between hypotheses.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctc_search.h"

namespace asr_stream {

inline constexpr double kEncoderFrameS = 0.04;

// A recognised word, in seconds of the stream. Its confidence, in (0, 1], is that of its least certain token: a word
// is wrong as soon as one of its tokens is. A mean would hide the one doubtful letter of a long word, a product would
// punish long words for their length.
struct Word {
  std::string text;
  double start_s;
  double end_s;
  float confidence;
};

// The words of a hypothesis, whose frames count from `start_s`. tokens: UTF-8 spelling of every token id; "▁"
// (U+2581) begins a word, as in SentencePiece, or is a token of its own between words; an empty one is not heard.
// std::invalid_argument for a token id outside `tokens`.
std::vector<Word> words(const Hypothesis& hypothesis, const std::vector<std::string>& tokens, double start_s = 0.0);

// The words with a space between them.
std::string join(const std::vector<Word>& words);

// Index of the best hypothesis by ctc_weight * first pass + (1 - ctc_weight) * decoder score: the second pass of Zhang
// et al. 2020, "Unified streaming and non-streaming two-pass end-to-end model". Both are log-probabilities of the
// whole sentence; the first is that of CTC and what a language model adds to it. What hotwords add counts in full beside
// them: the decoder has never heard of these. Of equals the first one wins.
// std::invalid_argument for no hypotheses, another number of scores, or a weight outside [0, 1].
std::size_t best_rescored(const std::vector<Hypothesis>& hypotheses, const std::vector<float>& decoder_scores,
                          double ctc_weight);

}  // namespace asr_stream
