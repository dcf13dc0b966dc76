#include "api/stream.h"

#include <iomanip>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <variant>

#include "api/failure.h"

namespace asr_stream {

namespace {

constexpr std::int32_t kFrameMs = 40;  // of an encoder frame
constexpr double kSampleRate = 16000.0;
constexpr double kMaxUtteranceS = 120.0;  // bounds what a stream keeps for rescoring

std::int64_t num_frames(const char* name, std::int32_t ms, std::int32_t low, std::int32_t high) {
  if (ms < low || ms > high || ms % kFrameMs) {
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(ms) + "; it must be a multiple of " +
                                std::to_string(kFrameMs) + " in [" + std::to_string(low) + ", " +
                                std::to_string(high) + "]");
  }
  return ms / kFrameMs;
}

std::shared_ptr<const SegmentOptions> segment_options(const Model& model, const StreamOptions& options) {
  if (!(options.max_utterance_s > 0.0 && options.max_utterance_s <= kMaxUtteranceS)) {
    throw std::invalid_argument("max_utterance_s is " + std::to_string(options.max_utterance_s) +
                                "; it must be in (0, 120]");
  }
  auto segment = std::make_shared<SegmentOptions>();
  segment->tokens = model.metadata().heard();
  segment->chunk_size = num_frames("chunk_ms", options.chunk_ms, kFrameMs, 5120);
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
    auto hotwords = std::make_shared<const Hotwords>(*options.hotwords, segment->tokens,
                                                     static_cast<float>(options.hotword_boost));
    segment->fusion = model.fusion_with(std::move(hotwords), options.use_lm);
  }
  segment->rescore_ctc_weight = model.metadata().rescore_ctc_weight;
  segment->endpointer.silence_after_speech_s = options.silence_after_speech_s;
  segment->endpointer.silence_without_speech_s = options.silence_without_speech_s;
  segment->endpointer.max_utterance_s = options.max_utterance_s;
  return segment;
}

}  // namespace

Stream::Stream(std::shared_ptr<const Model> model, const StreamOptions& options)
    : model_(std::move(model)),
      options_(segment_options(*model_, options)),
      left_context_(num_frames("left_context_ms", options.left_context_ms, 0, 20480)) {
  begin_segment();
  if (options.search == SegmentOptions::Search::kRescore) model_->open_decoder();
}

template <typename Sample>
void Stream::accept(const Sample* samples, std::size_t count) {
  check_usable();
  guarded([&] {
    num_samples_ += static_cast<std::int64_t>(count);
    while (count) {
      const std::size_t used = segment_->accept(samples, count);
      work();
      samples += used;
      count -= used;
    }
  });
}

template void Stream::accept(const float* samples, std::size_t count);
template void Stream::accept(const std::int16_t* samples, std::size_t count);

void Stream::gap(std::int64_t num_samples) {
  check_usable();
  constexpr std::int64_t kMax = std::int64_t{1} << 48;  // centuries
  if (num_samples < 0 || num_samples > kMax) {
    throw std::invalid_argument("num_samples is " + std::to_string(num_samples) + "; it must be in [0, 2^48]");
  }
  if (num_samples == 0) return;
  guarded([&] {
    segment_->finish();
    work();
    const double start_s = static_cast<double>(sample_offset()) / kSampleRate;
    anchor_ = sample_offset() + num_samples;
    num_samples_ = 0;
    const double end_s = static_cast<double>(anchor_) / kSampleRate;
    std::ostringstream text;
    text.imbue(std::locale::classic());
    text << std::fixed << std::setprecision(3) << static_cast<double>(num_samples) / kSampleRate
         << " s of audio were lost";
    events_.push_back({true, {Event::Type::kError, text.str(), start_s, end_s, {}}});
    begin_segment();
  });
}

void Stream::finish() {
  if (finished_) return;
  check_usable();
  guarded([&] {
    segment_->finish();
    work();
    finished_ = true;
  });
}

std::optional<StreamEvent> Stream::next_event() {
  if (events_.empty()) return std::nullopt;
  StreamEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Stream::check_usable() const {
  if (!failure_.empty()) throw NetworkError("this stream failed (" + failure_ + "); take a new one");
  if (finished_) throw FinishedError("this stream is finished; take a new one");
}

// What fails half-way leaves samples behind that nobody can count: the stream is then of no more use.
template <typename Action>
void Stream::guarded(Action action) {
  try {
    action();
  } catch (const std::bad_alloc&) {
    failure_ = "out of memory";
    throw;
  } catch (const std::exception& error) {
    failure_ = error.what();
    throw NetworkError("recognition failed: " + failure_);
  }
}

void Stream::begin_segment() {
  segment_ = std::make_unique<Segment>(options_, static_cast<double>(anchor_) / kSampleRate);
}

void Stream::work() {
  while (const Work* work = segment_->work()) {
    if (const auto* step = std::get_if<EncoderStep>(work)) {
      Cache& cache = caches_[step->second_pass];
      if (step->begins) cache = model_->new_cache(left_context_);
      const Model::Step result = model_->step(*step, cache);
      const auto& metadata = model_->metadata();
      segment_->stepped(result.log_probs, (step->num_frames - kFeatureOverlap) / kSubsampling, metadata.vocab_size(),
                        result.encoder_out, metadata.dim);
    } else {
      segment_->scored(model_->score(std::get<DecoderScoring>(*work)));
    }
  }
  caches_[1] = Cache();
  for (Event& event : segment_->take_events()) events_.push_back({false, std::move(event)});
}

}  // namespace asr_stream
