// Token-by-token search with the attention decoder, jointly with CTC (Watanabe et al. 2017, "Hybrid CTC/attention
// architecture for end-to-end speech recognition").
//
// The score of a hypothesis combines the decoder's log-probability with that of all sentences which begin with it
// according to CTC (prefix probability). The search needs no language model, lexicon or length normalization. It
// searches whole utterances: the decoder attends to all frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "options.h"
#include "search/ctc_search.h"
#include "work.h"

namespace asr_stream {

// One run of the decoder, which appends a token to each of N hypotheses. Its answer is the log-probabilities
// (N, vocab_size) of the next token.
struct DecoderStep {
  std::vector<std::int64_t> parents;  // the hypotheses of the last step that these extend; {0} in the first
  std::vector<std::int64_t> tokens;   // the last token of each; kSosEosId in the first
  bool begins;                        // the first of the utterance
};

// encoder_out: (num_frames, dim), only in the first step of an utterance. Output: log_probs (N, 1, vocab_size).
Work decoder_work(DecoderStep step, std::vector<float> encoder_out, std::int64_t dim, std::int64_t vocab_size);
// Scores N complete sentences, token ids without sentence marks. Output: scores (N,).
Work decoder_work(const std::vector<std::vector<std::int32_t>>& sentences, std::vector<float> encoder_out,
                  std::int64_t dim);

struct JointSearchOptions {
  // Relative to the decoder, in [0, 1]. With 0, scores are means per token including the end.
  double ctc_weight = option("joint_ctc_weight").default_value;
  std::size_t beam_size = 8;
};

// For one utterance. Not thread-safe.
class JointSearch {
 public:
  // Throws std::invalid_argument for options out of range, and fewer than 3 tokens.
  JointSearch(std::int64_t vocab_size, const JointSearchOptions& options);

  // Adds a frame of CTC log-probabilities, (vocab_size,). Must not be called after the first `step`.
  void append(const float* log_probs);

  // The step that the search waits for; none after the end. The first call ends the audio.
  std::optional<DecoderStep> step();
  // Answers it with log-probabilities (N, vocab_size). Throws std::invalid_argument for any others.
  void answer(const Rows& log_probs);

  // The best complete sentences, best first: at least one, which may be empty, and at most `num_best`. Their log_prob
  // is the score, their frames are those of the best alignment, counted from `first_frame`.
  std::vector<Hypothesis> hypotheses(std::size_t num_best, std::int64_t first_frame = 0) const;

  std::int64_t num_bytes() const noexcept {
    return static_cast<std::int64_t>(log_probs_.size() * sizeof(float) + probs_.size() * sizeof(double));
  }

 private:
  // A hypothesis. in_token[t] and in_blank[t], t = 0 to num_frames, are the log-probabilities that the first t frames
  // spell its tokens: the sum over the paths that end in its last token, and over those that end in blank.
  struct Prefix {
    std::vector<std::int32_t> tokens;
    double decoder_score;
    std::vector<double> in_token, in_blank;
  };
  struct Sentence {
    std::vector<std::int32_t> tokens;
    double score;
  };

  void begin();
  std::vector<double> prefix_scores(const Prefix& prefix) const;
  void log_product(const std::vector<double>& log_weights, std::int64_t first, std::int64_t last,
                   std::vector<double>& result) const;
  Prefix extended(const Prefix& prefix, std::int32_t token, double decoder_score) const;
  bool can_improve(double best, std::size_t length) const;
  double ctc(std::int64_t frame, std::int32_t token) const;

  JointSearchOptions options_;
  std::int64_t vocab_size_, num_frames_ = 0;
  std::vector<float> log_probs_;  // (num_frames, vocab_size), of CTC
  std::vector<double> probs_;     // the same as probabilities
  std::vector<Prefix> beam_;
  std::vector<std::int64_t> parents_;  // of beam_, in the previous one
  std::vector<Sentence> finished_;     // best first
  bool has_begun_ = false;
};

}  // namespace asr_stream
