// A stream over a model: the core's stream (csrc/stream.h), its caches, and the networks' runs that it asks for.
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

// The assets of a stream besides the model.
struct StreamAssets : Lists {
  bool use_lm = true;  // the model's language model
};

// For one thread at a time. Throws the errors of `Stream`.
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
  template <typename Action>
  void run(Action action);

  std::shared_ptr<const Model> model_;
  std::int32_t sample_rate_;   // of accept and gap
  std::int32_t left_context_ms_;
  std::int32_t next_left_context_ms_;  // since the next change of options
  std::int64_t num_changes_ = 0;
  std::shared_ptr<const SegmentOptions> options_;  // as last given
  Stream stream_;
  std::array<Cache, 1 + kNumViews> caches_;  // of the stream, and of the views of the utterance in the second pass
  std::deque<Event> events_;
};

}  // namespace asr_stream
