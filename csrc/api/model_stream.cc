#include "api/model_stream.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace asr_stream {

namespace {

std::shared_ptr<const SegmentOptions> new_segment_options(const Model& model, const Options& options) {
  const Assets open{model.fusion(options), new_phrases(options, model.lm(), model.metadata()), model.punctuation(),
                    model.neural_lm(), model.decoder()};
  return segment_options(options, model.metadata(), open);
}

}  // namespace

ModelStream::ModelStream(std::shared_ptr<const Model> model, std::int32_t sample_rate, const Options& options)
    : model_(std::move(model)),
      sample_rate_(sample_rate),
      options_(new_segment_options(*model_, options)),
      stream_(options_) {
  check_sample_rate(sample_rate_);
}

template <typename Sample>
void ModelStream::accept(const Sample* samples, std::size_t count) {
  do {  // in pieces of a second, so that the stream copies little of the queued audio
    const std::size_t piece = std::min(count, static_cast<std::size_t>(sample_rate_));
    stream_.accept(samples, piece, sample_rate_);
    run_until_done();
    samples += piece;
    count -= piece;
  } while (count);
}

template void ModelStream::accept(const float* samples, std::size_t count);
template void ModelStream::accept(const std::int16_t* samples, std::size_t count);

void ModelStream::gap(std::int64_t num_samples) {
  stream_.gap(num_samples, sample_rate_);
  run_until_done();
}

void ModelStream::end_utterance() {
  stream_.end_utterance();
  run_until_done();
}

void ModelStream::change(const Options& options) {
  auto changed = new_segment_options(*model_, options);
  stream_.change(changed);
  options_ = std::move(changed);
  run_until_done();
}

void ModelStream::finish() {
  stream_.finish();
  run_until_done();
}

std::optional<Event> ModelStream::next_event() {
  for (Event& event : stream_.take_events()) events_.push_back(std::move(event));
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void ModelStream::run_until_done() {
  std::optional<std::size_t> passing;  // slot of a state that only the next work may use
  while (const std::shared_ptr<const Work> work = stream_.work()) {
    const StateUse* use = work->state ? &*work->state : nullptr;
    if (passing && !(use && use->slot == *passing)) states_[*passing].clear();
    passing.reset();
    if (use && use->keep == StateUse::Keep::kForNextWork) passing = use->slot;
    Model::Run run;
    State none;
    try {
      run = model_->run(*work, use ? states_[use->slot] : none);
    } catch (const std::exception& error) {
      if (work->network == Network::kEncoder) stream_.attempt([] { throw; });
      stream_.not_answered(error.what());
      continue;
    }
    stream_.answer(run.answer);
  }
  if (passing) states_[*passing].clear();
}

}  // namespace asr_stream
