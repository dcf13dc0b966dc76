// Sums of log-probabilities over the passes of an utterance, frame by frame.
//
// Complete rows of a large vocabulary would take much memory: 15 MB for 30 s with 5000 tokens. Above kMaxWholeRow
// tokens, only the most likely tokens of the first pass are kept, plus one value for all others: their share of the
// remaining probability.
#pragma once

#include <cstdint>
#include <vector>

namespace asr_stream {

class LogProbSums {
 public:
  static constexpr std::int64_t kMaxWholeRow = 512;
  static constexpr std::int64_t kNumKept = 256;

  // Appends the next frame of the first pass. All frames have `num_tokens` log-probabilities.
  void append(const float* log_probs, std::int64_t num_tokens);
  // Adds another pass to a frame that has been appended.
  void add(std::int64_t frame, const float* log_probs);

  // Log-probabilities (num_tokens,) of a frame: the geometric mean over `num_passes` passes, normalized to sum to 1.
  std::vector<float> mean(std::int64_t frame, std::int64_t num_passes) const;

  bool empty() const noexcept { return sums_.empty(); }
  std::int64_t num_bytes() const noexcept {
    return static_cast<std::int64_t>(sums_.size() * sizeof(float) + kept_.size() * sizeof(std::int32_t));
  }

 private:
  bool is_whole() const noexcept { return num_tokens_ <= kMaxWholeRow; }
  std::int64_t width() const noexcept { return is_whole() ? num_tokens_ : kNumKept + 1; }

  std::int64_t num_tokens_ = 0;
  std::vector<std::int32_t> kept_;  // (num_frames, kNumKept) ids, sorted per frame; empty if rows are complete
  std::vector<float> sums_;         // (num_frames, width); in a shortened row, the last value is for all other tokens
};

}  // namespace asr_stream
