#include "stream.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <locale>
#include <numeric>
#include <set>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

namespace asr_stream {

namespace {

constexpr std::int64_t kMaxDivisor = std::int64_t{1} << 30;
constexpr float kFarBeyond = 10.0f;   // magnitude of a sample that is probably in the range of int16
constexpr float kFaint = 0.003f;      // loudest sample of speech, -50 dB, below which many words are wrong
constexpr double kUsual = 0.3;        // of speech at a usual level
constexpr int kMaxFarBeyond = 160;    // their number that is reported; a click has fewer

std::string describe_gap(double lost_s) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::fixed << std::setprecision(3) << lost_s << " s of audio were lost";
  return text.str();
}

// Copies the words of a partial or final as recognized, before they are formatted.
void keep_raw(Event& event) {
  if (event.type != Event::Type::kPartial && event.type != Event::Type::kFinal) return;
  event.raw = event.text;
  event.raw_words = event.words;
}

std::shared_ptr<const TextOptions> without_punctuation(const TextOptions& given) {
  auto options = std::make_shared<TextOptions>(given);
  options->punctuation.reset();
  return options;
}

}  // namespace

void Clock::advance(std::int64_t num_samples, std::int32_t sample_rate) {
  const std::int64_t common = std::gcd(kSampleRate, sample_rate);
  const std::int64_t up = kSampleRate / common, down = sample_rate / common;
  whole_ += num_samples / down * up;
  const std::int64_t part = num_samples % down * up;  // of `down`
  std::int64_t divisor = divisor_ / std::gcd(divisor_, down) * down;
  if (divisor > kMaxDivisor) {  // many odd rates were mixed: up to half a sample is lost
    whole_ = position();
    rest_ = 0;
    divisor_ = 1;
    divisor = down;
  }
  rest_ = rest_ * (divisor / divisor_) + part * (divisor / down);
  divisor_ = divisor;
  whole_ += rest_ / divisor_;
  rest_ %= divisor_;
}

Stream::Stream(std::shared_ptr<const SegmentOptions> options) {
  begin_segment(std::make_unique<Segment>(std::move(options)));
}

template <typename Sample>
void Stream::accept(const Sample* samples, std::size_t count, std::int32_t sample_rate) {
  check_usable();
  check_sample_rate(sample_rate);
  if (!count) return;
  guarded([&] {
    if (sample_rate != sample_rate_) {
      const std::int64_t position = clock_.position();
      sample_rate_ = sample_rate;
      queue_.push_back(Mark{Mark::Kind::kSampleRate, position, position});
    }
    clock_.advance(static_cast<std::int64_t>(count), sample_rate);
    queue_.push_back(Audio<Sample>{samples, count, sample_rate, {}});
    run_until_work();
    if (queue_.empty()) return;
    auto& rest = std::get<Audio<Sample>>(queue_.back());  // queued audio is copied
    rest.owned.assign(rest.samples, rest.samples + rest.count);
    rest.samples = rest.owned.data();
  });
}

template void Stream::accept(const float* samples, std::size_t count, std::int32_t sample_rate);
template void Stream::accept(const std::int16_t* samples, std::size_t count, std::int32_t sample_rate);

void Stream::gap(std::int64_t num_samples, std::int32_t sample_rate) {
  check_usable();
  check_sample_rate(sample_rate);
  if (num_samples < 0 || num_samples > kMaxGap) {
    throw std::invalid_argument("num_samples is " + std::to_string(num_samples) + "; it must be in [0, 2^48]");
  }
  if (!num_samples) return;
  const std::int64_t position = clock_.position();
  Clock after = clock_;
  after.advance(num_samples, sample_rate);
  if (after.position() > kMaxPosition) {
    throw std::invalid_argument("num_samples is " + std::to_string(num_samples) +
                                ": the stream would be longer than 2^53 samples at 16 kHz; take a new one");
  }
  clock_ = after;
  guarded([&] {
    const double lost_s = static_cast<double>(num_samples) / sample_rate;
    queue_.push_back(Mark{Mark::Kind::kSegment, position, after.position(), lost_s});
  });
}

void Stream::end_utterance() { change(nullptr); }

void Stream::change(std::shared_ptr<const SegmentOptions> options) {
  check_usable();
  const std::int64_t position = clock_.position();
  // Made now, so that an error changes nothing.
  auto next = options ? std::make_unique<Segment>(std::move(options), position) : nullptr;
  guarded([&] { queue_.push_back(Mark{Mark::Kind::kSegment, position, position, 0.0, std::move(next)}); });
}

void Stream::finish() {
  check_alive();
  if (finished_) return;
  finished_ = true;
  const std::int64_t position = clock_.position();
  guarded([&] { queue_.push_back(Mark{Mark::Kind::kEnd, position, position}); });
}

std::shared_ptr<const Work> Stream::work() const {
  check_alive();
  return punctuation_ ? punctuation_ : segment_->work();
}

const Work& Stream::pending() const {
  const std::shared_ptr<const Work> work = this->work();
  if (!work) throw std::logic_error("no work is pending");
  return *work;
}

void Stream::answer(const Answer& answer) {
  const bool is_needed = pending().network == Network::kEncoder;
  guarded([&] {
    try {
      if (punctuation_) take_punctuated(answer);
      else segment_->answer(answer);
    } catch (const std::invalid_argument& error) {
      if (is_needed) throw;
      do_without(error.what());
    }
  });
}

void Stream::take_punctuated(const Answer& answer) {
  check_shapes(*punctuation_, answer);
  const auto of_words = [this](const Output& output) {
    const Rows units = rows(output);
    const float* first = units.data + static_cast<std::int64_t>(first_word_) * units.num_columns;
    return std::vector<float>(first, first + static_cast<std::int64_t>(num_words_) * units.num_columns);
  };
  show(formatter_->shown(of_words(answer[0]), of_words(answer[1])));
}

void Stream::not_answered(const std::string& reason) {
  if (!failure_.empty()) return;
  const auto pending = work();
  if (!pending || pending->network == Network::kEncoder) return fail(reason);
  guarded([&] { do_without(reason); });
}

// Goes on without an answer to the pending work, and reports a network the first time that it fails.
void Stream::do_without(const std::string& reason) {
  const char* network = names(pending().network).text;
  if (failed_networks_.insert(network).second) {
    const double now = seconds(segment_start_ + segment_->num_samples());
    events_.push_back({Event::Type::kError,
                       std::string(network) + " failed, and recognition goes on without it: " + reason, now, now, {}});
  }
  if (punctuation_) return show(formatter_->shown());
  segment_->not_answered();
}

void Stream::fail(const std::string& reason) {
  if (!failure_.empty()) return;
  failure_ = reason.empty() ? "for an unknown reason" : reason;
  queue_.clear();
  if (punctuation_) show(formatter_->shown());  // nobody runs a network any more
  collect_events(false);
}

std::vector<Event> Stream::take_events() { return std::exchange(events_, {}); }

std::int64_t Stream::num_wanted() const noexcept {
  std::int64_t end = segment_start_ + segment_->num_samples() + segment_->num_wanted();
  if (resampler_ && resampler_->has_begun()) end += resampler_->reach() * kSampleRate / sample_rate_ + 1;
  return std::max<std::int64_t>(0, end - clock_.position());
}

void Stream::check_alive() const {
  if (!failure_.empty()) throw StreamFailed("this stream failed (" + failure_ + "); take a new one");
}

void Stream::check_usable() const {
  check_alive();
  if (finished_) throw StreamFinished("this stream is finished; take a new one");
}

// If `action` fails midway, it is unknown which audio was used.
template <typename Action>
void Stream::guarded(Action action) {
  attempt([&] {
    action();
    run_until_work();
  });
}

void Stream::begin_segment(std::unique_ptr<Segment> segment) {
  segment_ = std::move(segment);
  segment_start_ = position_;
  formatter_.reset();
  const SegmentOptions& options = segment_->options();
  if (!options.text) return;
  // A program compares phrases with its list, so they get no capitals and no marks. Endpoints need the network anyway.
  formatter_.emplace(options.phrases ? without_punctuation(*options.text) : options.text);
}

void Stream::run_until_work() {
  for (collect_events(); !punctuation_ && !segment_->work(); collect_events()) {
    if (num_used_ < resampled_.size()) {
      num_used_ += feed(resampled_.data() + num_used_, resampled_.size() - num_used_);
    } else if (queue_.empty()) {
      return;
    } else if (std::visit([this](auto& item) { return consume(item); }, queue_.front())) {
      queue_.pop_front();
    }
  }
}

// Processes a part of the audio; returns true when all of it has been used.
template <typename Sample>
bool Stream::consume(Audio<Sample>& audio) {
  std::size_t used;
  if (audio.sample_rate == kSampleRate) {
    used = feed(audio.samples, audio.count);
  } else {
    if (!resampler_ || resampler_->sample_rate() != audio.sample_rate) {
      resampler_ = std::make_unique<Resampler>(audio.sample_rate);
    }
    // In pieces, so that a long recording is not stored twice.
    used = std::min(audio.count, static_cast<std::size_t>(audio.sample_rate));
    const std::int64_t num_nonfinite = resampler_->num_nonfinite();
    resampled_.clear();
    num_used_ = 0;
    resampler_->accept(audio.samples, used, resampled_);
    segment_->add_nonfinite(resampler_->num_nonfinite() - num_nonfinite);
  }
  audio.samples += used;
  audio.count -= used;
  return audio.count == 0;
}

template <typename Sample>
std::size_t Stream::feed(const Sample* samples, std::size_t count) {
  const std::int64_t position = segment_start_ + segment_->num_samples();
  const std::size_t used = segment_->accept(samples, count);
  if constexpr (std::is_same_v<Sample, float>) check_scale(samples, used, position);
  constexpr float kScale = std::is_same_v<Sample, float> ? 1.0f : 1.0f / 32768.0f;
  for (std::size_t i = 0; i < used; ++i) {
    loudest_ = std::max(loudest_, std::fabs(kScale * static_cast<float>(samples[i])));
  }
  return used;
}

// Reports recognized speech that was so faint that many words are wrong, once. A chunk may have the end of an utterance
// and the beginning of the next one, so the audio of the utterance before counts, too.
void Stream::check_level(double at_s) {
  const float loudest = std::max(loudest_, std::exchange(loudest_before_, loudest_));
  loudest_ = 0.0f;
  if (faint_reported_ || loudest >= kFaint || loudest <= 0.0f) return;
  faint_reported_ = true;
  const auto decibels = [loudest](double from) {
    return std::to_string(std::lround(20.0 * std::log10(from / loudest)));
  };
  const std::string message = "speech is very faint, " + decibels(1.0) +
                              " dB below full scale, so words may be wrong: raise the level by about " +
                              decibels(kUsual) + " dB (more is not reported)";
  unshown_.push_back({Event::Type::kError, message, at_s, at_s, {}});
}

// Reports samples that are probably in the range of int16, once.
void Stream::check_scale(const float* samples, std::size_t count, std::int64_t position) {
  for (std::size_t i = 0; i < count && num_far_beyond_ < kMaxFarBeyond; ++i) {
    const float magnitude = std::fabs(samples[i]);
    if (!(magnitude > kFarBeyond && magnitude <= Fbank::kMaxMagnitude)) continue;
    if (++num_far_beyond_ < kMaxFarBeyond) continue;
    const double at_s = seconds(position + static_cast<std::int64_t>(i));
    unshown_.push_back({Event::Type::kError,
                        "samples are far beyond 1, such as " + std::to_string(std::lround(magnitude)) +
                            ": floats must be in [-1, 1]; divide samples in the range of int16 by 32768 (more are "
                            "not reported)",
                        at_s, at_s, {}});
  }
}

bool Stream::consume(Mark& mark) {
  if (resampler_ && resampler_->has_begun()) {
    resampled_.clear();
    num_used_ = 0;
    resampler_->finish(mark.position - position_, resampled_);
    return false;
  }
  if (mark.kind != Mark::Kind::kSampleRate && !segment_->finished()) {
    segment_->finish();
    return false;
  }
  collect_events();
  if (punctuation_) return false;  // for the segment that ends here
  position_ = mark.next_position;
  if (mark.kind == Mark::Kind::kSegment) {
    num_changes_ += mark.next != nullptr;
    if (mark.lost_s > 0.0) {
      const double start_s = seconds(mark.position), end_s = seconds(mark.next_position);
      events_.push_back({Event::Type::kGap, describe_gap(mark.lost_s), start_s, end_s, {}});
    }
    begin_segment(mark.next ? std::move(mark.next)
                            : std::make_unique<Segment>(segment_->shared_options(), position_));
  }
  return true;
}

// with_network: whether events may wait for case and punctuation.
void Stream::collect_events(bool with_network) {
  for (Event& event : segment_->take_events()) {
    const bool is_final = event.type == Event::Type::kFinal;
    const double end_s = event.end_s;
    unshown_.push_back(std::move(event));
    if (is_final) check_level(end_s);
  }
  while (!unshown_.empty() && !punctuation_) {
    Event& event = unshown_.front();
    const bool is_partial = event.type == Event::Type::kPartial;
    if (is_partial || event.type == Event::Type::kFinal) {
      keep_raw(event);
      if (formatter_) {
        show_alternatives(event);
        const bool is_cut = event.endpoint && event.endpoint == std::string_view(name(EndpointRule::kMaxUtterance));
        const PunctuationRun* run = is_partial ? formatter_->partial(event.words, event.num_stable)
                                               : formatter_->final(event.words, is_cut);
        if (run && with_network) {
          PunctuationUnits units = punctuation_units(run->words, run->pauses_s, run->beginning, run->complete);
          first_word_ = units.first_word;
          num_words_ = units.num_words;
          punctuation_ = std::make_shared<const Work>(punctuation_work(std::move(units)));
          return;
        }
        show(formatter_->shown());
        continue;
      }
    }
    report_first();
  }
}

// Formats without the network for case and punctuation: alternatives are not worth a run. Drops those that are shown
// like the final or a more likely one, for example with another spelling.
void Stream::show_alternatives(Event& event) const {
  if (event.alternatives.empty()) return;
  const auto options = without_punctuation(*segment_->options().text);
  const auto shown = [&](const std::vector<Word>& words) {
    TextFormatter formatter(options);
    formatter.final(words, false);
    return formatter.shown().words;
  };
  std::set<std::string> texts{join(shown(event.words))};
  std::vector<Alternative> kept;
  for (Alternative& other : event.alternatives) {
    other.words = shown(other.words);
    other.text = join(other.words);
    if (texts.insert(other.text).second) kept.push_back(std::move(other));
  }
  event.alternatives = std::move(kept);
}

// The first of the events that are not formatted yet.
void Stream::report_first() {
  Event& event = unshown_.front();
  if (event.type == Event::Type::kFinal) {
    event.num_taken_back = std::min(event.num_taken_back, num_finals_);
    num_finals_ += !event.words.empty();
    num_finals_ -= event.num_taken_back;
  }
  events_.push_back(std::move(event));
  unshown_.pop_front();
  punctuation_.reset();
}

// The first event, which was formatted.
void Stream::show(ShownText text) {
  Event& event = unshown_.front();
  event.words = std::move(text.words);
  event.num_stable = text.num_stable;
  event.num_taken_back = text.num_taken_back;
  event.text = join(event.words);
  report_first();
}

}  // namespace asr_stream
