// A stream: one source of audio of any sample rate, whose times stay correct when audio is lost. No I/O, no threads.
//
// It does everything except running the network, with one segment (segment.h) after another. Accepted audio is queued
// and processed until the network is needed. The caller runs it, alone or in a batch of many streams:
//
//     for (stream.accept(samples, n, rate); const auto work = stream.work();) { ... stream.answer(outputs); }
//     for (Event& event : stream.take_events()) ...
//
// - The clock counts 16 kHz samples exactly: it carries over the fractions from sample rates and gaps.
// - A gap begins a new segment with a new encoder cache, and times continue. With the old cache, the encoder would see
//   separate pieces of audio as adjacent, which does not occur in training.
// - If a network cannot be run, the caller must call `not_answered`. Without the encoder the stream has failed, and it
//   is unknown which audio was used. Every later call throws StreamFailed with the reason; earlier events can still be
//   taken. Without any other network, the stream goes on: an error event reports it the first time, and each run is
//   tried again, because the cause may pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "contract.h"
#include "frontend/resampler.h"
#include "segment.h"
#include "text/formatter.h"

namespace asr_stream {

struct StreamFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StreamFinished : std::invalid_argument {  // audio after the end
  using std::invalid_argument::invalid_argument;
};

// A position in 16 kHz samples, exact for any mixture of sample rates.
class Clock {
 public:
  void advance(std::int64_t num_samples, std::int32_t sample_rate);
  std::int64_t position() const noexcept { return whole_ + (2 * rest_ >= divisor_); }  // rounded

 private:
  std::int64_t whole_ = 0;
  std::int64_t rest_ = 0, divisor_ = 1;  // rest_ / divisor_ of a sample, in [0, 1)
};

// Not thread-safe. Throws std::invalid_argument; std::logic_error for an answer to work that is not pending;
// StreamFinished after `finish`; StreamFailed.
class Stream {
 public:
  static constexpr std::int64_t kMaxGap = std::int64_t{1} << 48;       // in samples; centuries
  static constexpr std::int64_t kMaxPosition = std::int64_t{1} << 53;  // samples of 16 kHz

  explicit Stream(std::shared_ptr<const SegmentOptions> options);

  // Continues with any number of samples, float in [-1, 1] or int16, at any rate in Hz. A sample that is not finite
  // counts as silence; an event reports it once per segment. An event reports floats far beyond 1 once per stream.
  template <typename Sample>
  void accept(const Sample* samples, std::size_t count, std::int32_t sample_rate = kSampleRate);
  // Reports that `num_samples` of audio were lost here, which ends the utterance. 0 does nothing.
  void gap(std::int64_t num_samples, std::int32_t sample_rate = kSampleRate);
  void end_utterance();  // regardless of the endpoint rules
  // Ends the utterance; later audio is recognized with other options.
  void change(std::shared_ptr<const SegmentOptions> options);
  void finish();  // ends the audio; a second call does nothing

  // The work that the stream waits for, or nullptr.
  std::shared_ptr<const Work> work() const;
  void answer(const Answer& answer);  // an invalid answer is none, see `not_answered`
  // Reports that there is no answer to the pending work, because its network could not be run. Never throws
  // StreamFailed.
  void not_answered(const std::string& reason);
  void fail(const std::string& reason);  // for any other failure
  // Runs `action`, such as a network. If it throws, the stream fails; throws StreamFailed, or std::bad_alloc.
  template <typename Action>
  void attempt(Action action) {
    try {
      action();
    } catch (const std::bad_alloc&) {
      fail("out of memory");
      throw;
    } catch (const std::exception& error) {
      fail(error.what());
      throw StreamFailed("recognition failed: " + failure_);
    }
  }

  // The events since the last call, oldest first. Never throws StreamFailed.
  std::vector<Event> take_events();

  const std::string& failure() const noexcept { return failure_; }  // "" if it has not failed
  // Position of the next sample, in 16 kHz samples including gaps.
  std::int64_t sample_offset() const noexcept { return clock_.position(); }
  // Number of 16 kHz samples that lead to work, see Segment; undefined while there is work.
  std::int64_t num_wanted() const noexcept;
  std::int64_t num_changes() const noexcept { return num_changes_; }  // changes of options that have taken effect
  const Segment& segment() const noexcept { return *segment_; }

 private:
  template <typename Sample>
  struct Audio {
    const Sample* samples;
    std::size_t count;
    std::int32_t sample_rate;
    std::vector<Sample> owned;  // copy, or empty if the caller's memory is used
  };
  // Ends the audio of one sample rate: the rate changes, or the segment or the stream ends.
  struct Mark {
    enum class Kind { kSampleRate, kSegment, kEnd };
    Kind kind;
    std::int64_t position;       // end of the audio, in 16 kHz samples
    std::int64_t next_position;  // start of the audio after it
    double lost_s = 0.0;
    std::unique_ptr<Segment> next = nullptr;  // the next segment; null: one with the same options
  };
  using Item = std::variant<Audio<float>, Audio<std::int16_t>, Mark>;

  void check_usable() const;
  void check_alive() const;
  template <typename Action>
  void guarded(Action action);
  const Work& pending() const;
  void take_punctuated(const Answer& answer);
  void do_without(const std::string& reason);
  void begin_segment(std::unique_ptr<Segment> segment);
  void run_until_work();
  template <typename Sample>
  bool consume(Audio<Sample>& audio);
  bool consume(Mark& mark);
  template <typename Sample>
  std::size_t feed(const Sample* samples, std::size_t count);
  void check_scale(const float* samples, std::size_t count, std::int64_t position);
  void check_level(double at_s);
  void collect_events(bool with_network = true);
  void show(ShownText text);
  void show_alternatives(Event& event) const;
  void report_first();

  std::unique_ptr<Segment> segment_;
  std::optional<TextFormatter> formatter_;  // none if words are not formatted
  std::set<std::string> failed_networks_;   // other than the encoder; each is reported once
  std::size_t num_finals_ = 0;              // those with words that are not taken back
  std::deque<Event> unshown_;               // events of the segment that are not formatted yet
  std::shared_ptr<const Work> punctuation_;  // the run that the first of unshown_ waits for
  std::size_t first_word_ = 0, num_words_ = 0;  // its units that are words
  std::int64_t segment_start_ = 0;  // samples of 16 kHz
  std::int64_t position_ = 0;       // position after the last mark that was processed
  std::unique_ptr<Resampler> resampler_;  // of the last sample rate other than 16 kHz
  std::vector<float> resampled_;  // the first `num_used_` are already in the segment
  std::size_t num_used_ = 0;
  std::deque<Item> queue_;
  std::vector<Event> events_;
  Clock clock_;  // of all accepted audio, including queued audio
  std::int32_t sample_rate_ = kSampleRate;  // of the last accepted audio
  std::int64_t num_changes_ = 0;
  int num_far_beyond_ = 0;  // samples far beyond 1, until they are reported
  float loudest_ = 0.0f, loudest_before_ = 0.0f;  // magnitudes of samples: since the last final, and before it
  bool faint_reported_ = false;
  bool finished_ = false;
  std::string failure_;
};

}  // namespace asr_stream
