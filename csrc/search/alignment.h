// Forced alignment: the frames of each token of a known sentence, from CTC.
#pragma once

#include <cstdint>
#include <vector>

#include "search/ctc_search.h"

namespace asr_stream {

// The most likely alignment (Viterbi) of `tokens` to log_probs (num_frames, vocab_size), row-major, with the frames and
// the confidence of each token. Frames are counted from `first_frame`. Throws std::invalid_argument for no tokens, ids
// outside the vocabulary, more tokens than fit into the frames, or a probability of 0.
Hypothesis align_tokens(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size,
                        const std::vector<std::int32_t>& tokens, std::int64_t first_frame = 0);

}  // namespace asr_stream
