#include "api/model_stream.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>
#include <variant>

namespace asr_stream {

namespace {

// The encoder frames of a duration in ms.
std::int64_t num_frames(const char* name, std::int64_t ms) {
  if (!is_allowed(option(name), static_cast<double>(ms)) || ms % kEncoderFrameMs) {
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(ms) + "; it must be a multiple of " +
                                std::to_string(kEncoderFrameMs) + " in " + interval(option(name)));
  }
  return ms / kEncoderFrameMs;
}

std::shared_ptr<const SegmentOptions> segment_options(const Model& model, const StreamOptions& options) {
  check_option("max_utterance_s", options.endpointer.max_utterance_s);
  auto segment = std::make_shared<SegmentOptions>();
  segment->tokens = model.metadata().output_symbols();
  segment->phones = model.metadata().phones;
  segment->chunk_size = num_frames(
      "chunk_ms", options.chunk_ms ? options.chunk_ms : kEncoderFrameMs * model.metadata().default_chunk_size);
  segment->second_pass = options.second_pass;
  segment->search = options.search;
  segment->beam.beam_size = options.beam_size;
  if (options.phrases) {
    segment->phrases = std::make_shared<const Phrases>(*options.phrases, segment->tokens,
                                                       static_cast<float>(options.unknown_cost));
  } else if (options.use_lm) {
    segment->fusion = model.fusion();
  }
  if (options.hotwords) {
    const HotwordList hotwords{*options.hotwords, static_cast<float>(options.hotword_boost)};
    segment->fusion = model.new_fusion(&hotwords, options.use_lm && !options.phrases);
  }
  segment->rescore_ctc_weight = model.metadata().rescore_ctc_weight;
  segment->text = text_options(options.formatted, segment->tokens, options.mask ? &*options.mask : nullptr,
                               model.punctuation() ? model.punctuation()->metadata() : nullptr);
  segment->endpointer = options.endpointer;
  return segment;
}

}  // namespace

ModelStream::ModelStream(std::shared_ptr<const Model> model, const StreamOptions& options)
    : model_(std::move(model)),
      sample_rate_(options.sample_rate),
      left_context_(num_frames("left_context_ms", options.left_context_ms != -1
                                                      ? options.left_context_ms
                                                      : kEncoderFrameMs * model_->metadata().default_left_context)),
      stream_(segment_options(*model_, options)) {
  check_sample_rate(sample_rate_);
  if (options.search == SegmentOptions::Search::kRescore) model_->open_decoder();
}

template <typename Sample>
void ModelStream::accept(const Sample* samples, std::size_t count) {
  do {  // in seconds, so that the stream has to copy little of what waits
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

// A run of the network; when it fails, so does the stream.
template <typename Action>
void ModelStream::run(Action action) {
  try {
    action();
  } catch (const std::bad_alloc&) {
    stream_.fail("out of memory");
    throw;
  } catch (const std::exception& error) {
    stream_.fail(error.what());
    throw StreamFailed("recognition failed: " + stream_.failure());
  }
}

void ModelStream::work() {
  while (const Work* work = stream_.work()) answer(*work);
  caches_[1] = Cache();
}

void ModelStream::answer(const Work& work) {
  if (const auto* step = std::get_if<EncoderStep>(&work)) {
    Cache& cache = caches_[step->second_pass];
    Model::Step result;
    run([&] {
      if (step->begins) cache = model_->new_cache(left_context_);
      result = model_->step(*step, cache);
    });
    stream_.stepped(result.log_probs, result.encoder_out, result.phone_log_probs);
  } else if (const auto* units = std::get_if<PunctuationUnits>(&work)) {
    PunctuationModel::Answer answer;
    try {
      answer = model_->punctuation()->run(*units);
    } catch (const std::runtime_error& error) {  // which costs case and punctuation, not the words
      stream_.not_punctuated(error.what());
      return;
    }
    stream_.punctuated(answer.mark_probs, answer.case_probs);
  } else {
    std::vector<float> scores;
    run([&] { scores = model_->score(std::get<DecoderScoring>(work)); });
    stream_.scored(scores);
  }
}

}  // namespace asr_stream
