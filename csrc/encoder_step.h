// A run of the encoder: what a segment asks for, and what it gets.
#pragma once

#include <cstdint>
#include <vector>

namespace asr_stream {

// One run of the encoder over (1, num_frames, 80) features, with a cache of the owner's.
struct EncoderStep {
  bool second_pass;  // which cache: that of the stream, or that of the utterance's second pass
  bool begins;       // with a new cache
  std::vector<float> features;  // (num_frames, 80): 4c + 3 frames, which give c encoder frames
  std::int64_t num_frames;
  std::int64_t num_valid;  // feature frames that are real; num_valid / 4 encoder frames of the result are valid
};

// The output of a run of the encoder, in the owner's memory: (num_frames, num_columns) float32. data null: nothing.
struct Rows {
  const float* data = nullptr;
  std::int64_t num_frames = 0;
  std::int64_t num_columns = 0;
};

}  // namespace asr_stream
