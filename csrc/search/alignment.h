// Forced alignment: the frames of each token of a known text, from CTC.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "search/ctc_search.h"

namespace asr_stream {

// The most likely alignment (Viterbi) of `tokens` to log_probs (num_frames, vocab_size), row-major, with the frames and
// the confidence of each token. Frames are counted from `first_frame`. Throws std::invalid_argument for no tokens, ids
// outside the vocabulary, more tokens than fit into the frames, or a probability of 0.
Hypothesis align_tokens(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size,
                        const std::vector<std::int32_t>& tokens, std::int64_t first_frame = 0);

// The spellings of a word in tokens, any of which may have been said. A word without spellings stands for any speech.
using Spellings = std::vector<std::vector<std::int32_t>>;

// Where text and audio differ, in nats. Infinite costs: they do not.
struct DifferenceCosts {
  double skipped;  // of a word of the text that was not said
  double other;    // of a frame of speech that is not in the text
};

// tokens: those of all words that were said, in the spelling that fits best. A word of any speech is one kAnySpeech.
// spellings: for each word of the text the index of its spelling, or kSkipped.
// others: the frames [start, end) of speech that is not in the text, without the silence around it.
struct TextAlignment {
  Hypothesis hypothesis;
  std::vector<std::int32_t> spellings;
  std::vector<std::pair<std::int64_t, std::int64_t>> others;
};

inline constexpr std::int32_t kSkipped = -1;
inline constexpr std::int32_t kAnySpeech = -1;

// The most likely alignment of a text that the audio follows, but perhaps not exactly. Memory: 4 bytes for each frame
// and token of all spellings. Throws std::invalid_argument for an empty spelling, ids outside the vocabulary and
// negative costs, and if the words do not fit into the frames and none may be skipped.
TextAlignment align_text(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size,
                         const std::vector<Spellings>& words, const DifferenceCosts& costs);

}  // namespace asr_stream
