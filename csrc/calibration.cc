#include "calibration.h"

#include <cmath>
#include <stdexcept>

namespace asr_stream {

namespace {

constexpr double kLargestNumber = 1000.0;  // so that sums and products of the numbers stay finite

using Numbers = std::vector<CalibrationRow::Number>;

Numbers numbers(ConfidenceMap& map) { return {{"bias", &map.bias}, {"least", &map.least}, {"mean", &map.mean}}; }

Numbers with_posterior(ConfidenceMap& map) {
  Numbers all = numbers(map);
  all.push_back({"posterior", &map.posterior});
  return all;
}

Numbers numbers(SilenceWeights& weights) {
  return {{"base_s", &weights.base_s},
          {"per_nat_s", &weights.per_nat_s},
          {"per_log_odds_s", &weights.per_log_odds_s},
          {"few_words_s", &weights.few_words_s},
          {"per_pause", &weights.per_pause}};
}

Numbers numbers(NeuralLmWeights& weights) {
  return {{"weight", &weights.weight}, {"word_bonus", &weights.word_bonus}};
}

Numbers numbers(std::array<double, kLmOptions.size()>& lm_weights) {
  Numbers found;
  for (std::size_t i = 0; i < kLmOptions.size(); ++i) found.push_back({kLmOptions[i], &lm_weights[i]});
  return found;
}

}  // namespace

std::vector<CalibrationRow> rows(Calibration& c) {
  return {{"confidence_with_lm", numbers(c.confidence_with_lm)},
          {"confidence_without_lm", numbers(c.confidence_without_lm)},
          {"confidence_with_phones", numbers(c.confidence_with_phones)},
          {"confidence_with_posteriors", with_posterior(c.confidence_with_posteriors)},
          {"endpoint_with_punctuation", numbers(c.endpoint_with_punctuation)},
          {"endpoint_without_punctuation", numbers(c.endpoint_without_punctuation)},
          {"lm_weights", numbers(c.lm_weights)},
          {"neural_lm_weights", numbers(c.neural_lm_weights)}};
}

void set(const CalibrationRow& row, const std::vector<double>& given) {
  std::string names;
  for (const auto& number : row.numbers) names += (names.empty() ? "" : ", ") + std::string(number.name);
  bool is_right = given.size() == row.numbers.size();
  for (const double value : given) is_right = is_right && std::abs(value) <= kLargestNumber;
  if (!is_right) {
    throw std::invalid_argument(std::string(row.key) + " must be " + std::to_string(row.numbers.size()) +
                                " numbers in [-1000, 1000] (" + names + "), got " + std::to_string(given.size()));
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Option* option = find_option(row.numbers[i].name);
    if (option && !is_allowed(*option, given[i])) {
      throw std::invalid_argument(std::string(row.key) + ": " + option->name + " must be " + allowed(*option));
    }
    *row.numbers[i].value = given[i];
  }
}

}  // namespace asr_stream
