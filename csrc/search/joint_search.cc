#include "search/joint_search.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "contract.h"
#include "search/alignment.h"

namespace asr_stream {

namespace {

// A hypothesis is dropped if it is this many nats below the best of its length.
constexpr double kBeamThreshold = 8.0;
// Minimum log-probability of a token, in a frame or from the decoder, so that all scores are finite.
constexpr float kMinLogProb = -200.0f;

}  // namespace

Work decoder_work(DecoderStep step, std::vector<float> encoder_out, std::int64_t dim, std::int64_t vocab_size) {
  const auto count = static_cast<std::int64_t>(step.tokens.size());
  const auto num_frames = static_cast<std::int64_t>(encoder_out.size()) / dim;
  Work work{Network::kDecoder,
            {{kDecoderInputs[0], {count, 0}, std::vector<std::int64_t>()},
             {kDecoderInputs[1], {count}, std::vector<std::int64_t>(step.tokens.size())},
             {kDecoderInputs[2], {1, num_frames, dim}, std::move(encoder_out)},
             {kDecoderStepInput, {count}, std::move(step.tokens)}},
            {{kDecoderStepOutput, {count, 1, vocab_size}}}};
  work.state = StateUse{kDecoderSlot, step.begins, 0, StateUse::Keep::kForNextWork, std::move(step.parents)};
  return work;
}

Work decoder_work(const std::vector<std::vector<std::int32_t>>& sentences, std::vector<float> encoder_out,
                  std::int64_t dim) {
  const auto count = static_cast<std::int64_t>(sentences.size());
  const auto num_frames = static_cast<std::int64_t>(encoder_out.size()) / dim;
  std::size_t longest = 1;
  for (const auto& tokens : sentences) longest = std::max(longest, tokens.size());
  std::vector<std::int64_t> padded(sentences.size() * longest), lengths;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    std::copy(sentences[i].begin(), sentences[i].end(), padded.begin() + static_cast<std::ptrdiff_t>(i * longest));
    lengths.push_back(static_cast<std::int64_t>(sentences[i].size()));
  }
  return {Network::kDecoder,
          {{kDecoderInputs[0], {count, static_cast<std::int64_t>(longest)}, std::move(padded)},
           {kDecoderInputs[1], {count}, std::move(lengths)},
           {kDecoderInputs[2], {1, num_frames, dim}, std::move(encoder_out)}},
          {{kDecoderOutputs[0], {count}}}};
}

JointSearch::JointSearch(std::int64_t vocab_size, const JointSearchOptions& options)
    : options_(options), vocab_size_(vocab_size) {
  check_option("joint_ctc_weight", options.ctc_weight);
  check_option("beam_size", static_cast<double>(options.beam_size));
  if (vocab_size <= kSosEosId) {
    throw std::invalid_argument("a joint search needs at least 3 tokens, got " + std::to_string(vocab_size));
  }
}

void JointSearch::append(const float* log_probs) {
  for (std::int64_t i = 0; i < vocab_size_; ++i) log_probs_.push_back(std::max(log_probs[i], kMinLogProb));
  ++num_frames_;
}

double JointSearch::ctc(std::int64_t frame, std::int32_t token) const {
  return log_probs_[static_cast<std::size_t>(frame * vocab_size_ + token)];
}

void JointSearch::begin() {
  has_begun_ = true;
  probs_.assign(log_probs_.begin(), log_probs_.end());
  for (double& value : probs_) value = std::exp(value);
  const auto size = static_cast<std::size_t>(num_frames_) + 1;
  Prefix empty{{}, 0.0, std::vector<double>(size, kNever), std::vector<double>(size, 0.0)};
  for (std::size_t t = 1; t < size; ++t) {
    empty.in_blank[t] = empty.in_blank[t - 1] + ctc(static_cast<std::int64_t>(t) - 1, kBlankId);
  }
  beam_.push_back(std::move(empty));
  parents_ = {0};
}

std::optional<DecoderStep> JointSearch::step() {
  if (!has_begun_) begin();
  if (beam_.empty()) return std::nullopt;
  DecoderStep step{parents_, {}, beam_.front().tokens.empty()};
  for (const Prefix& prefix : beam_) step.tokens.push_back(prefix.tokens.empty() ? kSosEosId : prefix.tokens.back());
  return step;
}

void JointSearch::answer(const Rows& log_probs) {
  if (beam_.empty() || log_probs.num_frames != static_cast<std::int64_t>(beam_.size()) ||
      log_probs.num_columns != vocab_size_) {
    throw std::invalid_argument("the decoder gave (" + std::to_string(log_probs.num_frames) + ", " +
                                std::to_string(log_probs.num_columns) + ") log-probabilities; expected (" +
                                std::to_string(beam_.size()) + ", " + std::to_string(vocab_size_) + ")");
  }
  LogProbChecker().check(log_probs.data, log_probs.num_frames, vocab_size_);
  struct Extension {
    double score, decoder_score;
    std::size_t prefix;
    std::int32_t token;
  };
  std::vector<Extension> found;
  const double weight = options_.ctc_weight;
  const std::size_t length = beam_.front().tokens.size();
  for (std::size_t i = 0; i < beam_.size(); ++i) {
    const Prefix& prefix = beam_[i];
    const float* following = log_probs.data + static_cast<std::int64_t>(i) * vocab_size_;
    const auto decoder_score = [&](std::int32_t token) {
      return prefix.decoder_score + std::max(following[token], kMinLogProb);
    };
    const double ended = decoder_score(kSosEosId);
    const double ended_ctc = log_add(prefix.in_token.back(), prefix.in_blank.back());
    if (ended_ctc > kNever) {
      const double score = weight > 0 ? weight * ended_ctc + (1 - weight) * ended
                                      : ended / static_cast<double>(length + 1);
      const auto is_better = [](double a, const Sentence& b) { return a > b.score; };
      finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), score, is_better), {prefix.tokens, score});
    }
    const std::vector<double> ctc_scores = prefix_scores(prefix);
    for (std::int32_t token = 0; token < vocab_size_; ++token) {
      const double ctc_score = ctc_scores[static_cast<std::size_t>(token)];
      const bool is_text = token != kBlankId && token != kUnkId && token != kSosEosId;
      if (!is_text || ctc_score == kNever) continue;  // impossible: more tokens than frames
      const double score = (1 - weight) * decoder_score(token) + weight * ctc_score;
      found.push_back({score, decoder_score(token), i, token});
    }
  }
  finished_.resize(std::min(finished_.size(), options_.beam_size));

  const std::size_t kept = std::min(found.size(), options_.beam_size);
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
                    [](const Extension& a, const Extension& b) {
                      if (a.score != b.score) return a.score > b.score;
                      return std::pair(a.prefix, a.token) < std::pair(b.prefix, b.token);
                    });
  std::vector<Prefix> next;
  parents_.clear();
  if (kept && static_cast<std::int64_t>(length) < num_frames_ && can_improve(found.front().score, length)) {
    for (std::size_t i = 0; i < kept && found[i].score > found.front().score - kBeamThreshold; ++i) {
      next.push_back(extended(beam_[found[i].prefix], found[i].token, found[i].decoder_score));
      parents_.push_back(static_cast<std::int64_t>(found[i].prefix));
    }
  }
  beam_ = std::move(next);
}

// Whether a longer sentence can still win. best: the score of the best hypothesis of `length` + 1 tokens.
bool JointSearch::can_improve(double best, std::size_t length) const {
  if (finished_.empty()) return true;
  // With CTC, more tokens only lower a score. Without it, they may raise the mean, but hardly ever beyond that of a
  // certain end.
  const double highest = options_.ctc_weight > 0 ? best : best / static_cast<double>(length + 2);
  return finished_.front().score < highest;
}

// Sets `result` to log(exp(log_weights) @ probs), for the tokens from `first` to before `last`.
void JointSearch::log_product(const std::vector<double>& log_weights, std::int64_t first, std::int64_t last,
                              std::vector<double>& result) const {
  const double top = *std::max_element(log_weights.begin(), log_weights.end());
  std::fill(result.begin() + first, result.begin() + last, 0.0);
  if (top > kNever) {
    for (std::size_t t = 0; t < log_weights.size(); ++t) {
      const double weight = std::exp(log_weights[t] - top);
      const double* row = probs_.data() + static_cast<std::int64_t>(t) * vocab_size_;
      for (std::int64_t token = first; token < last; ++token) {
        result[static_cast<std::size_t>(token)] += weight * row[token];
      }
    }
  }
  for (std::int64_t token = first; token < last; ++token) {
    double& value = result[static_cast<std::size_t>(token)];
    value = value > 0 ? top + std::log(value) : kNever;
  }
}

// The log-probabilities, for each token, of all sentences that begin with `prefix` followed by it.
std::vector<double> JointSearch::prefix_scores(const Prefix& prefix) const {
  std::vector<double> result(static_cast<std::size_t>(vocab_size_), kNever);
  if (num_frames_ == 0) return result;
  std::vector<double> before(static_cast<std::size_t>(num_frames_));
  for (std::size_t t = 0; t < before.size(); ++t) before[t] = log_add(prefix.in_token[t], prefix.in_blank[t]);
  log_product(before, 0, vocab_size_, result);
  if (!prefix.tokens.empty()) {  // a repeated token needs a blank in between
    const std::int64_t last = prefix.tokens.back();
    before.assign(prefix.in_blank.begin(), prefix.in_blank.end() - 1);
    log_product(before, last, last + 1, result);
  }
  return result;
}

JointSearch::Prefix JointSearch::extended(const Prefix& prefix, std::int32_t token, double decoder_score) const {
  const std::size_t size = prefix.in_blank.size();
  Prefix next{prefix.tokens, decoder_score, std::vector<double>(size, kNever), std::vector<double>(size, kNever)};
  const bool repeats = !prefix.tokens.empty() && prefix.tokens.back() == token;
  next.tokens.push_back(token);
  for (std::size_t t = 0; t + 1 < size; ++t) {
    const auto frame = static_cast<std::int64_t>(t);
    const double before = repeats ? prefix.in_blank[t] : log_add(prefix.in_token[t], prefix.in_blank[t]);
    next.in_token[t + 1] = log_add(next.in_token[t], before) + ctc(frame, token);
    next.in_blank[t + 1] = log_add(next.in_blank[t], next.in_token[t]) + ctc(frame, kBlankId);
  }
  return next;
}

std::vector<Hypothesis> JointSearch::hypotheses(std::size_t num_best, std::int64_t first_frame) const {
  std::vector<Hypothesis> result;
  for (std::size_t i = 0; i < std::min(num_best, finished_.size()); ++i) {
    const Sentence& sentence = finished_[i];
    result.push_back(sentence.tokens.empty() ? Hypothesis()
                                             : align_tokens(log_probs_.data(), num_frames_, vocab_size_,
                                                            sentence.tokens, first_frame));
    result.back().log_prob = sentence.score;
  }
  if (result.empty()) result.emplace_back();
  return result;
}

}  // namespace asr_stream
