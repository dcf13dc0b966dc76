// A stream over a model: the core's stream (csrc/stream.h), its caches, and the network runs that it asks for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "api/model.h"
#include "stream.h"

namespace asr_stream {

// Durations in ms and s; see asr_stream_options for their ranges.
struct StreamOptions {
  std::int32_t sample_rate = kSampleRate;
  std::int32_t chunk_ms = 0;          // 0: the model's own
  std::int32_t left_context_ms = -1;  // -1: the model's own
  SegmentOptions::Search search = SegmentOptions::Search::kRescore;
  bool second_pass = true;
  bool use_lm = true;
  std::int32_t beam_size = kBeamSize;
  EndpointerOptions endpointer;
  double hotword_boost = kHotwordBoost;
  double unknown_cost = kUnknownCost;
  std::optional<std::string> hotwords, phrases, mask;  // lists, one entry a line
  bool formatted = kFormattedText;
};

// For one thread at a time. Errors are those of `Stream`.
class ModelStream {
 public:
  // std::invalid_argument for an option outside its range, or one that the model cannot serve.
  ModelStream(std::shared_ptr<const Model> model, const StreamOptions& options);

  template <typename Sample>  // float or std::int16_t
  void accept(const Sample* samples, std::size_t count);
  void gap(std::int64_t num_samples);
  void finish();

  std::optional<Event> next_event();
  std::int64_t sample_offset() const noexcept { return stream_.sample_offset(); }
  const Model& model() const noexcept { return *model_; }

 private:
  void work();
  void answer(const Work& work);
  template <typename Action>
  void run(Action action);

  std::shared_ptr<const Model> model_;
  std::int32_t sample_rate_;   // of accept and gap
  std::int64_t left_context_;  // encoder frames
  Stream stream_;
  std::array<Cache, 2> caches_;  // of the stream, and of the second pass over an utterance
  std::deque<Event> events_;
};

}  // namespace asr_stream
