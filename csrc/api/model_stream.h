// A stream over a model: runs the networks that the core's stream (csrc/stream.h) asks for, with their states.
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

// Not thread-safe. Throws the errors of `Stream`.
class ModelStream {
 public:
  // Throws std::invalid_argument for an option out of range, or one that the model does not support.
  ModelStream(std::shared_ptr<const Model> model, std::int32_t sample_rate, const Options& options);

  template <typename Sample>  // float or std::int16_t
  void accept(const Sample* samples, std::size_t count);
  void gap(std::int64_t num_samples);
  void end_utterance();
  void change(const Options& options);
  void finish();

  std::optional<Event> next_event();
  std::int64_t sample_offset() const noexcept { return stream_.sample_offset(); }
  const std::vector<std::string>& warnings() const noexcept { return options_->warnings; }
  const Model& model() const noexcept { return *model_; }

 private:
  void run_until_done();

  std::shared_ptr<const Model> model_;
  std::int32_t sample_rate_;   // for accept and gap
  std::shared_ptr<const SegmentOptions> options_;  // most recently given
  Stream stream_;
  std::array<State, kNumSlots> states_;
  std::deque<Event> events_;
};

}  // namespace asr_stream
