#include "words.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace asr_stream {

namespace {

constexpr std::string_view kWordBorder = "\xe2\x96\x81";  // "▁"

}  // namespace

std::vector<Word> words(const Hypothesis& hypothesis, const std::vector<std::string>& tokens, double start_s) {
  std::vector<Word> result;
  bool begins = true;
  for (std::size_t i = 0; i < hypothesis.tokens.size(); ++i) {
    const std::int32_t id = hypothesis.tokens[i];
    if (id < 0 || static_cast<std::size_t>(id) >= tokens.size()) {
      throw std::invalid_argument("token id " + std::to_string(id) + " is outside 0 to " +
                                  std::to_string(tokens.size()) + " - 1");
    }
    std::string_view piece = tokens[static_cast<std::size_t>(id)];
    if (piece.substr(0, kWordBorder.size()) == kWordBorder) {
      piece.remove_prefix(kWordBorder.size());
      begins = true;
    }
    if (piece.empty()) continue;
    const double end_s = start_s + static_cast<double>(hypothesis.end_frames[i]) * kEncoderFrameS;
    if (begins) {
      result.push_back({std::string(piece), start_s + static_cast<double>(hypothesis.start_frames[i]) * kEncoderFrameS,
                        end_s, hypothesis.confidences[i]});
    } else {
      result.back().text += piece;
      result.back().end_s = end_s;
      result.back().confidence = std::min(result.back().confidence, hypothesis.confidences[i]);
    }
    begins = false;
  }
  return result;
}

std::string join(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) {
    if (!text.empty()) text += ' ';
    text += word.text;
  }
  return text;
}

std::size_t best_rescored(const std::vector<Hypothesis>& hypotheses, const std::vector<float>& decoder_scores,
                          double ctc_weight) {
  if (hypotheses.empty() || hypotheses.size() != decoder_scores.size()) {
    throw std::invalid_argument(std::to_string(hypotheses.size()) + " hypotheses with " +
                                std::to_string(decoder_scores.size()) +
                                " decoder scores: one or more are needed, and one score for each");
  }
  if (!(ctc_weight >= 0.0 && ctc_weight <= 1.0)) {
    throw std::invalid_argument("ctc_weight " + std::to_string(ctc_weight) + " must be in [0, 1]");
  }
  std::size_t best = 0;
  double highest = 0.0;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    const double first_pass = hypotheses[i].log_prob + hypotheses[i].lm_score;
    const double score = ctc_weight * first_pass + (1.0 - ctc_weight) * static_cast<double>(decoder_scores[i]) +
                         hypotheses[i].hotword_score;
    if (i == 0 || score > highest) {
      best = i;
      highest = score;
    }
  }
  return best;
}

}  // namespace asr_stream
