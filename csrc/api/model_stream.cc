#include "api/model_stream.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

namespace asr_stream {

namespace {

std::shared_ptr<const SegmentOptions> new_segment_options(const Model& model, const Options& options,
                                                          const StreamAssets& assets) {
  check(options);
  const bool use_lm = assets.use_lm && !assets.phrases;
  Assets open;
  open.fusion = model.fusion(options, use_lm, assets.hotwords);
  if (assets.phrases) {
    open.phrases = new_phrases(options, assets.use_lm ? model.lm() : nullptr, model.metadata(), *assets.phrases);
  }
  if (model.punctuation()) open.punctuation = model.punctuation()->metadata();
  if (model.neural_lm() && use_lm) open.neural_lm = model.neural_lm()->metadata();
  auto segment = segment_options(options, model.metadata(), open, assets);
  if (segment->uses_decoder()) model.open_decoder(segment->searches_jointly());
  return segment;
}

std::int32_t left_context_ms(const Model& model, const Options& options) {
  return resolved(options, model.metadata()).left_context_ms;
}

}  // namespace

ModelStream::ModelStream(std::shared_ptr<const Model> model, std::int32_t sample_rate, const Options& options,
                         const StreamAssets& assets)
    : model_(std::move(model)),
      sample_rate_(sample_rate),
      left_context_ms_(left_context_ms(*model_, options)),
      next_left_context_ms_(left_context_ms_),
      options_(new_segment_options(*model_, options, assets)),
      stream_(options_) {
  check_sample_rate(sample_rate_);
}

template <typename Sample>
void ModelStream::accept(const Sample* samples, std::size_t count) {
  do {  // in pieces of a second, so that the stream copies little of the queued audio
    const std::size_t piece = std::min(count, static_cast<std::size_t>(sample_rate_));
    stream_.accept(samples, piece, sample_rate_);
    work();
    samples += piece;
    count -= piece;
  } while (count);
}

template void ModelStream::accept(const float* samples, std::size_t count);
template void ModelStream::accept(const std::int16_t* samples, std::size_t count);

void ModelStream::gap(std::int64_t num_samples) {
  stream_.gap(num_samples, sample_rate_);
  work();
}

void ModelStream::end_utterance() {
  stream_.end_utterance();
  work();
}

void ModelStream::change(const Options& options, const StreamAssets& assets) {
  auto changed = new_segment_options(*model_, options, assets);
  stream_.change(changed);
  options_ = std::move(changed);
  next_left_context_ms_ = left_context_ms(*model_, options);
  work();
}

void ModelStream::finish() {
  stream_.finish();
  work();
}

std::optional<Event> ModelStream::next_event() {
  for (Event& event : stream_.take_events()) events_.push_back(std::move(event));
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void ModelStream::work() {
  while (const Work* work = stream_.work()) answer(*work);
}

// Runs a network that is not the encoder; returns none if it fails.
template <typename Network>
auto ModelStream::run(Network network) -> std::optional<decltype(network())> {
  try {
    return network();
  } catch (const std::exception& error) {
    stream_.not_answered(error.what());
    return std::nullopt;
  }
}

void ModelStream::answer(const Work& work) {
  if (const auto* step = std::get_if<EncoderStep>(&work)) {
    if (num_changes_ < stream_.num_changes()) {  // until then, the current utterance is still processed
      num_changes_ = stream_.num_changes();
      left_context_ms_ = next_left_context_ms_;
    }
    Cache& cache = caches_[step->view];
    Model::Step result;
    stream_.attempt([&] {
      if (step->begins) cache = model_->new_cache(left_context_ms_ / kEncoderFrameMs);
      result = model_->step(*step, cache);
      if (step->ends) cache = Cache();
    });
    stream_.stepped(result.log_probs, result.encoder_out, result.phone_log_probs);
  } else if (const auto* units = std::get_if<PunctuationUnits>(&work)) {
    const auto answer = run([&] { return model_->punctuation()->run(*units); });
    if (answer) stream_.punctuated(answer->mark_probs, answer->case_probs);
  } else if (std::holds_alternative<DecoderStep>(work)) {
    DecoderCache cache;  // one step follows another
    while (const auto* step = std::get_if<DecoderStep>(stream_.work())) {
      const auto result = run([&] { return model_->decode(*step, cache); });
      if (result) stream_.decoded(result->log_probs);
    }
  } else if (const auto* tree = std::get_if<PieceTree>(&work)) {
    const auto log_probs = run([&] { return model_->neural_lm()->score(*tree); });
    if (log_probs) stream_.lm_scored(*log_probs);
  } else {
    const auto scores = run([&] { return model_->score(std::get<DecoderScoring>(work)); });
    if (scores) stream_.scored(*scores);
  }
}

}  // namespace asr_stream
