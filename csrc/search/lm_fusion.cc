#include "search/lm_fusion.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "search/spelling.h"

namespace asr_stream {

namespace {

constexpr double kMinShare = 0.01;  // or a rare letter would be written on the least occasion
constexpr float kLmGain = 5.0f;

void check(const char* name, float value, float low, float high) {
  if (!(value >= low && value <= high)) {
    throw std::invalid_argument(std::string(name) + " must be in [" + std::to_string(low) + ", " +
                                std::to_string(high) + "], got " + std::to_string(value));
  }
}

}  // namespace

LmFusion::LmFusion(std::shared_ptr<const NgramLm> lm, const std::vector<std::string>& tokens,
                   const LmFusionOptions& options, std::shared_ptr<const Hotwords> hotwords)
    : lm_(std::move(lm)), hotwords_(std::move(hotwords)), spellings_(token_texts(tokens)), options_(options) {
  if (!lm_ && !hotwords_) throw std::invalid_argument("fusion needs a language model, hotwords, or both");
  check("lm weight", options.weight, 0.0f, 10.0f);
  check("word_bonus", options.word_bonus, -20.0f, 20.0f);
  check("oov_penalty", options.oov_penalty, 0.0f, 100.0f);
  check("prior_weight", options.prior_weight, 0.0f, 2.0f);
  if (lm_) {
    const std::array<double, 256> shares = lm_->byte_shares();
    for (std::size_t byte = 0; byte < shares.size(); ++byte) {
      const double share = shares[byte] > kMinShare ? shares[byte] : kMinShare;  // also where it is no number
      letter_gains_[byte] = -options.prior_weight * static_cast<float>(std::log(share));
    }
    highest_gain_ += kLmGain;
  }
  if (hotwords_) {
    std::size_t longest = 0;
    for (const std::string& spelling : spellings_) longest = std::max(longest, num_letters(spelling));
    highest_gain_ += hotwords_->highest_boost() * static_cast<float>(longest);
    if (lm_) {
      hotword_log_prob_ =
          lm_->unigram_log_prob(lm_->unknown()) - std::log(static_cast<float>(hotwords_->num_hotwords()));
    }
  }
}

LmFusion::Path LmFusion::begin() const {
  Path path{};
  if (lm_) path.state = lm_->begin();
  if (hotwords_) path.hotword = hotwords_->begin();
  return path;
}

LmFusion::Path LmFusion::advance(const Path& path, std::int32_t token) const {
  Path next = path;
  const std::string& spelling = spellings_[static_cast<std::size_t>(token)];
  if (spelling.empty()) return next;
  for (const char last : spelling) {
    const auto byte = static_cast<std::uint8_t>(last);
    if (byte == ' ') {
      finish_word(next);
      continue;
    }
    next.in_word = true;
    if (hotwords_) next.hotword = hotwords_->advance(next.hotword, byte);
    if (!lm_) continue;
    next.letters += letter_gains_[byte];
    if (next.node != Lexicon::kNone) next.node = lm_->lexicon().child(next.node, byte);
  }
  estimate(next);
  return next;
}

void LmFusion::estimate(Path& path) const {
  if (hotwords_) path.hotwords_pending = hotwords_->under_way(path.hotword);
  if (!lm_ || !path.in_word) return;
  const bool known = path.node != Lexicon::kNone, hot = hotwords_ && hotwords_->matches(path.hotword);
  float log_prob = lm_->unigram_log_prob(lm_->unknown());
  if (known) {
    log_prob = lm_->lexicon().best_log_prob(path.node);
    if (hot) log_prob = std::max(log_prob, hotword_log_prob_);
  } else if (hot) {
    log_prob = hotword_log_prob_;
  }
  path.pending = options_.weight * log_prob + options_.word_bonus;
  path.pending += known || hot ? path.letters : -options_.oov_penalty;
}

void LmFusion::finish_word(Path& path) const {
  if (!path.in_word) return;
  path.in_word = false;
  const bool hot = hotwords_ && hotwords_->matches(path.hotword) && hotwords_->contains_word(path.hotword);
  if (hotwords_) {
    path.hotwords_finished += hotwords_->complete(path.hotword);
    path.hotword = hotwords_->advance(path.hotword, ' ');
    path.hotwords_pending = hotwords_->under_way(path.hotword);
  }
  if (!lm_) return;
  const std::int32_t spelled = path.node == Lexicon::kNone ? Lexicon::kNone : lm_->lexicon().word(path.node);
  const bool known = spelled != Lexicon::kNone;
  float log_prob = lm_->advance(path.state, known ? spelled : lm_->unknown());
  if (hot) log_prob = known ? std::max(log_prob, hotword_log_prob_) : hotword_log_prob_;
  path.finished += options_.weight * log_prob + options_.word_bonus;
  path.finished += known || hot ? path.letters + letter_gains_[' '] : -options_.oov_penalty;
  path.pending = path.letters = 0.0f;
  path.node = Lexicon::kRoot;
}

LmFusion::Path LmFusion::finish(const Path& path) const {
  Path last = path;
  finish_word(last);
  last.hotwords_pending = 0.0f;
  if (lm_) last.finished += options_.weight * lm_->advance(last.state, lm_->end_of_sentence());
  return last;
}

}  // namespace asr_stream
