// One run of the encoder: the request from a segment, and the result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace asr_stream {

inline constexpr std::size_t kNumViews = 3;  // views of an utterance in the second pass

// One run of the encoder over (1, num_frames, 80) features, with a cache that the caller keeps.
struct EncoderStep {
  std::size_t view;  // index of the cache: 0 for the stream, 1 to kNumViews for a view in the second pass
  bool begins;       // whether to start with a new cache
  bool ends;         // whether the cache is no longer needed after this run
  std::vector<float> features;  // (num_frames, 80); 4c + 3 frames give c encoder frames
  std::int64_t num_frames;
  std::int64_t num_valid;  // valid feature frames; num_valid / 4 encoder frames of the result are valid
};

// Output of a network in the caller's memory: (num_frames, num_columns) float32. `data` may be null.
struct Rows {
  const float* data = nullptr;
  std::int64_t num_frames = 0;
  std::int64_t num_columns = 0;
};

}  // namespace asr_stream
