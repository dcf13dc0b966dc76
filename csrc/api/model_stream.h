// A stream over a model: runs the networks that the core's stream (csrc/stream.h) asks for, with its caches.
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

// The assets of a stream in addition to the model.
struct StreamAssets : Lists {
  bool use_lm = true;  // the model's language model
};

// Not thread-safe. Throws the errors of `Stream`.
class ModelStream {
 public:
  // Throws std::invalid_argument for an option out of range, or one that the model does not support.
  ModelStream(std::shared_ptr<const Model> model, std::int32_t sample_rate, const Options& options,
              const StreamAssets& assets);

  template <typename Sample>  // float or std::int16_t
  void accept(const Sample* samples, std::size_t count);
  void gap(std::int64_t num_samples);
  void end_utterance();
  void change(const Options& options, const StreamAssets& assets);
  void finish();

  std::optional<Event> next_event();
  std::int64_t sample_offset() const noexcept { return stream_.sample_offset(); }
  const std::vector<std::string>& warnings() const noexcept { return options_->warnings; }
  const Model& model() const noexcept { return *model_; }

 private:
  void work();
  void answer(const Work& work);
  template <typename Network>
  auto run(Network network) -> std::optional<decltype(network())>;

  std::shared_ptr<const Model> model_;
  std::int32_t sample_rate_;   // for accept and gap
  std::int32_t left_context_ms_;
  std::int32_t next_left_context_ms_;  // in effect after the next change of options
  std::int64_t num_changes_ = 0;
  std::shared_ptr<const SegmentOptions> options_;  // most recently given
  Stream stream_;
  std::array<Cache, 1 + kNumViews> caches_;  // one for the stream, and one per view in the second pass
  std::deque<Event> events_;
};

}  // namespace asr_stream
