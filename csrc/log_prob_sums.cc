#include "log_prob_sums.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace asr_stream {

namespace {

constexpr float kFloor = -60.0f;  // minimum log-probability: a token excluded in one pass may be likely in others

// Sorted by id.
std::vector<std::int32_t> likeliest_tokens(const float* log_probs, std::int64_t num_tokens) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(num_tokens));
  std::iota(tokens.begin(), tokens.end(), 0);
  // Ties go to the lower id, so the choice is the same on every machine.
  const auto likelier = [log_probs](std::int32_t a, std::int32_t b) {
    return log_probs[a] > log_probs[b] || (log_probs[a] == log_probs[b] && a < b);
  };
  std::nth_element(tokens.begin(), tokens.begin() + LogProbSums::kNumKept, tokens.end(), likelier);
  tokens.resize(LogProbSums::kNumKept);
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace

void LogProbSums::append(const float* log_probs, std::int64_t num_tokens) {
  num_tokens_ = num_tokens;
  if (!is_whole()) {
    const std::vector<std::int32_t> tokens = likeliest_tokens(log_probs, num_tokens);
    kept_.insert(kept_.end(), tokens.begin(), tokens.end());
  }
  const auto frame = static_cast<std::int64_t>(sums_.size()) / width();
  sums_.resize(sums_.size() + static_cast<std::size_t>(width()), 0.0f);
  add(frame, log_probs);
}

void LogProbSums::add(std::int64_t frame, const float* log_probs) {
  float* sums = sums_.data() + frame * width();
  if (is_whole()) {
    for (std::int64_t token = 0; token < num_tokens_; ++token) sums[token] += std::max(log_probs[token], kFloor);
    return;
  }
  double rest = 0.0;
  std::int64_t token = 0;
  const auto add_rest_before = [&](std::int64_t end) {
    for (; token < end; ++token) rest += std::exp(log_probs[token]);
  };
  const std::int32_t* kept = kept_.data() + frame * kNumKept;
  for (std::int64_t i = 0; i < kNumKept; ++i) {
    add_rest_before(kept[i]);
    sums[i] += std::max(log_probs[token++], kFloor);
  }
  add_rest_before(num_tokens_);
  const double share = std::log(rest / static_cast<double>(num_tokens_ - kNumKept));
  sums[kNumKept] += std::max(static_cast<float>(share), kFloor);
}

std::vector<float> LogProbSums::mean(std::int64_t frame, std::int64_t num_passes) const {
  std::vector<float> row(static_cast<std::size_t>(num_tokens_));
  const float* sums = sums_.data() + frame * width();
  if (is_whole()) {
    std::copy_n(sums, num_tokens_, row.begin());
  } else {
    std::fill(row.begin(), row.end(), sums[kNumKept]);
    const std::int32_t* kept = kept_.data() + frame * kNumKept;
    for (std::int64_t i = 0; i < kNumKept; ++i) row[static_cast<std::size_t>(kept[i])] = sums[i];
  }
  double total = 0.0;
  for (float& value : row) total += std::exp(value /= static_cast<float>(num_passes));
  for (float& value : row) value -= static_cast<float>(std::log(total));
  return row;
}

}  // namespace asr_stream
