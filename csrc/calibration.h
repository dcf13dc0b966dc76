// Measurements of a model, stored in its file: how sure of a word it is, where utterances end, what a language
// model is worth.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace asr_stream {

// Log odds of a word being right: bias + least * its least certain token + mean * the mean of its tokens
// + posterior * the log odds of its posterior.
struct ConfidenceMap {
  double bias, least, mean, posterior = 0.0;
};

// Seconds of silence that end an utterance: what each cue adds (see search/endpointer.h).
struct SilenceWeights {
  double base_s;
  double per_nat_s;       // by which the language model does not expect the end of the sentence
  double per_log_odds_s;  // that the sentence is over, less
  double few_words_s;
  double per_pause;  // of the longest pause so far: who has paused so long pauses again
};

// The defaults of the options lm_weight, lm_word_bonus, lm_oov_penalty and lm_prior_weight.
struct LmCalibration {
  double weight = option("lm_weight").default_value;
  double word_bonus = option("lm_word_bonus").default_value;
  double oov_penalty = option("lm_oov_penalty").default_value;
  double prior_weight = option("lm_prior_weight").default_value;
};

// The defaults are those of the bundled models, which hold for files before version 4.
struct Calibration {
  // Fitted on half of the speakers of `dev`: `python benchmarks/confidence.py data/dev.jsonl.gz --num-utterances 282`.
  ConfidenceMap confidence_with_lm{-1.40, 1.85, 2.51};
  ConfidenceMap confidence_without_lm{-6.64, 6.94, 2.98};
  ConfidenceMap confidence_with_phones{-0.51, 1.51, 2.07};
  ConfidenceMap confidence_with_posteriors{0.41, 1.77, -1.35, 0.63};  // of a lattice over phones
  // Chosen on the pauses of 456 and of 495 utterances of `dev`, `dev_nonnative` and `dev_cv`: with the network for
  // punctuation, the shortest wait of those that cut hardly more utterances in two than 0.8 s of silence in any set.
  SilenceWeights endpoint_with_punctuation{1.0, 0.02, 0.18, 0.2, 1.4};
  SilenceWeights endpoint_without_punctuation{0.2, 0.16, 0.0, 0.32, 1.5};
  // `python benchmarks/search_weights.py data/dev.jsonl.gz`
  LmCalibration lm_weights;
};

// A key of the metadata, whose value is these numbers in this order.
struct CalibrationRow {
  struct Number {
    const char* name;
    double* value;
  };
  const char* key;
  std::vector<Number> numbers;
};

std::vector<CalibrationRow> rows(Calibration& calibration);

// Sets the numbers of a row. std::invalid_argument, which names the key, for other than as many finite numbers, or a
// weight outside the range of its option.
void set(const CalibrationRow& row, const std::vector<double>& numbers);

}  // namespace asr_stream
