// A stream: one source of audio, with a clock that lost audio cannot set wrong, and the network that its segments need.
//
// Imitates asr/streaming/stream.py and segment.py: after a gap everything starts afresh, the encoder's cache included.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "api/model.h"
#include "segment.h"

namespace asr_stream {

// Durations in ms and s; see asr_stream_options for their ranges.
struct StreamOptions {
  std::int32_t chunk_ms = 640;
  std::int32_t left_context_ms = 2560;
  SegmentOptions::Search search = SegmentOptions::Search::kRescore;
  bool second_pass = true;
  bool use_lm = true;
  std::int32_t beam_size = SegmentOptions{}.beam.beam_size;
  double silence_after_speech_s = EndpointerOptions{}.silence_after_speech_s;
  double silence_without_speech_s = EndpointerOptions{}.silence_without_speech_s;
  double max_utterance_s = EndpointerOptions{}.max_utterance_s;
  double hotword_boost = kHotwordBoost;
  double unknown_cost = kUnknownCost;
  std::optional<std::string> hotwords, phrases;  // lists, one entry a line
};

struct StreamEvent {
  bool is_gap;  // whatever the event's type
  Event event;
};

// For one thread at a time.
class Stream {
 public:
  // std::invalid_argument for an option outside its range, or one that the model cannot serve.
  Stream(std::shared_ptr<const Model> model, const StreamOptions& options);

  // FinishedError after `finish`; NetworkError when the network could not be run, and ever after.
  template <typename Sample>  // float or std::int16_t
  void accept(const Sample* samples, std::size_t count);
  void gap(std::int64_t num_samples);  // std::invalid_argument where it is negative
  void finish();

  std::optional<StreamEvent> next_event();
  std::int64_t sample_offset() const noexcept { return anchor_ + num_samples_; }
  const Model& model() const noexcept { return *model_; }

 private:
  void check_usable() const;
  template <typename Action>
  void guarded(Action action);
  void begin_segment();
  void work();

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const SegmentOptions> options_;
  std::int64_t left_context_;  // encoder frames
  std::unique_ptr<Segment> segment_;
  std::array<Cache, 2> caches_;  // of the stream, and of the second pass over an utterance
  std::deque<StreamEvent> events_;
  std::int64_t anchor_ = 0;       // samples of the stream before the segment
  std::int64_t num_samples_ = 0;  // of the segment
  bool finished_ = false;
  std::string failure_;
};

}  // namespace asr_stream
