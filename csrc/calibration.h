// Values that were tuned for a model and stored in its file: word confidence, endpoints, language model weights.
#pragma once

#include <array>
#include <vector>

#include "options.h"

namespace asr_stream {

// The log odds that a word is right: bias + least * its least certain token + mean * the mean over its tokens +
// posterior * the log odds of its posterior.
struct ConfidenceMap {
  double bias, least, mean, posterior = 0.0;
};

// Seconds of silence that end an utterance, as a sum over features (see search/endpointer.h).
struct SilenceWeights {
  double base_s;
  double per_nat_s;       // per nat of -log P(</s>)
  double per_log_odds_s;  // per unit of log odds that the sentence has ended; subtracted
  double few_words_s;
  double per_pause;  // per second of the longest pause so far, as this speaker may pause again
};

// Weights of a neural language model that rescores sentences of a search without n-grams.
struct NeuralLmWeights {
  double weight;      // of its log-probabilities
  double word_bonus;  // added for each word
};

// The defaults are those of the bundled models. They also apply to files without these rows.
struct Calibration {
  // Fitted on half of the speakers of `dev`: `python benchmarks/confidence.py data/dev --num-utterances 282`.
  ConfidenceMap confidence_with_lm{-1.40, 1.85, 2.51};
  ConfidenceMap confidence_without_lm{-6.64, 6.94, 2.98};
  ConfidenceMap confidence_with_phones{-0.51, 1.51, 2.07};
  ConfidenceMap confidence_with_posteriors{0.41, 1.77, -1.35, 0.63};  // of a lattice over phones
  // Chosen on the pauses of `dev`, `dev_nonnative` and `dev_cv`: the shortest wait that splits hardly more utterances
  // than 0.8 s of silence, in every set.
  SilenceWeights endpoint_with_punctuation{1.0, 0.02, 0.18, 0.2, 1.4};
  SilenceWeights endpoint_without_punctuation{0.2, 0.16, 0.0, 0.32, 1.5};
  // The defaults of kLmOptions: `python benchmarks/search_weights.py data/dev`
  std::array<double, kLmOptions.size()> lm_weights{
      option(kLmOptions[0]).default_value, option(kLmOptions[1]).default_value, option(kLmOptions[2]).default_value,
      option(kLmOptions[3]).default_value};
  // For the letters of the bundled model. Values from 0.2 to 0.5 and from 0 to 1 give about as many errors.
  NeuralLmWeights neural_lm_weights{0.4, 0.5};
};

// A metadata key whose value is these numbers, in this order.
struct CalibrationRow {
  struct Number {
    const char* name;
    double* value;
  };
  const char* key;
  std::vector<Number> numbers;
};

std::vector<CalibrationRow> rows(Calibration& calibration);

// Sets the numbers of a row. Throws std::invalid_argument with the key for a wrong count, for numbers that are not
// finite, and for a weight outside the range of its option.
void set(const CalibrationRow& row, const std::vector<double>& numbers);

}  // namespace asr_stream
