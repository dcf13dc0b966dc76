#include "lm_fusion.h"

#include <cmath>
#include <stdexcept>
#include <utility>

namespace asr_stream {

namespace {

constexpr char kBorder[] = "\xE2\x96\x81";  // U+2581
constexpr double kMinShare = 0.01;  // or a rare letter would be written on the least occasion

void check(const char* name, float value, float low, float high) {
  if (!(value >= low && value <= high)) {
    throw std::invalid_argument(std::string(name) + " must be in [" + std::to_string(low) + ", " +
                                std::to_string(high) + "], got " + std::to_string(value));
  }
}

}  // namespace

LmFusion::LmFusion(std::shared_ptr<const NgramLm> lm, const std::vector<std::string>& tokens,
                   const LmFusionOptions& options)
    : lm_(std::move(lm)), spellings_(tokens), options_(options) {
  check("lm weight", options.weight, 0.0f, 10.0f);
  check("word_bonus", options.word_bonus, -20.0f, 20.0f);
  check("oov_penalty", options.oov_penalty, 0.0f, 100.0f);
  check("prior_weight", options.prior_weight, 0.0f, 2.0f);
  const std::array<double, 256> shares = lm_->byte_shares();
  for (std::size_t byte = 0; byte < shares.size(); ++byte) {
    const double share = shares[byte] > kMinShare ? shares[byte] : kMinShare;  // also where it is no number
    letter_gains_[byte] = -options.prior_weight * static_cast<float>(std::log(share));
  }
  for (std::string& spelling : spellings_) {
    for (std::size_t at = 0; (at = spelling.find(kBorder, at)) != std::string::npos; ++at) {
      spelling.replace(at, sizeof kBorder - 1, " ");
    }
  }
}

LmFusion::Path LmFusion::begin() const { return {lm_->begin(), Lexicon::kRoot, false, 0.0f, 0.0f, 0.0f}; }

LmFusion::Path LmFusion::advance(const Path& path, std::int32_t token) const {
  Path next = path;
  const std::string& spelling = spellings_[static_cast<std::size_t>(token)];
  if (spelling.empty()) return next;
  for (const char byte : spelling) {
    if (byte == ' ') {
      finish_word(next);
    } else {
      next.in_word = true;
      next.letters += letter_gains_[static_cast<std::uint8_t>(byte)];
      if (next.node != Lexicon::kNone) next.node = lm_->lexicon().child(next.node, static_cast<std::uint8_t>(byte));
    }
  }
  if (!next.in_word) {
    next.pending = 0.0f;
  } else if (next.node != Lexicon::kNone) {
    next.pending = options_.weight * lm_->lexicon().best_log_prob(next.node) + options_.word_bonus + next.letters;
  } else {
    next.pending =
        options_.weight * lm_->unigram_log_prob(lm_->unknown()) + options_.word_bonus - options_.oov_penalty;
  }
  return next;
}

void LmFusion::finish_word(Path& path) const {
  if (!path.in_word) return;
  std::int32_t word = path.node == Lexicon::kNone ? Lexicon::kNone : lm_->lexicon().word(path.node);
  if (word == Lexicon::kNone) {
    word = lm_->unknown();
    path.finished -= options_.oov_penalty;
  } else {
    path.finished += path.letters + letter_gains_[' '];
  }
  path.finished += options_.weight * lm_->advance(path.state, word) + options_.word_bonus;
  path.pending = path.letters = 0.0f;
  path.node = Lexicon::kRoot;
  path.in_word = false;
}

float LmFusion::finish(const Path& path) const {
  Path last = path;
  finish_word(last);
  return last.finished + options_.weight * lm_->advance(last.state, lm_->end_of_sentence());
}

}  // namespace asr_stream
