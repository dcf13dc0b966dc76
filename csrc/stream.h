// A stream: one source of audio of any sample rate, whose clock stays correct when audio is lost. No I/O, no threads.
//
// It does everything but run the network, with one segment (segment.h) after the other. Accepted audio is queued and
// processed up to where the network is needed; the owner runs it, alone or in a batch of many streams:
//
//     for (stream.accept(samples, n, rate); const Work* work = stream.work();) { ... stream.stepped(...); }
//     for (Event& event : stream.take_events()) ...
//
// - The clock counts samples of 16 kHz exactly: fractions that a rate or a gap leaves over are carried along.
// - After a gap a new segment begins, with a new cache of the encoder, and times continue. A cache across the gap would
//   join audio that was apart, which does not occur in training.
// - When the network cannot be run the owner calls `fail`. The stream has then failed, and it is unknown which audio
//   was used. Every later call throws StreamFailed with the reason; events from before it can still be taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
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

// A position in samples of 16 kHz, exact for any mixture of sample rates.
class Clock {
 public:
  void advance(std::int64_t num_samples, std::int32_t sample_rate);
  std::int64_t position() const noexcept { return whole_ + (2 * rest_ >= divisor_); }  // rounded

 private:
  std::int64_t whole_ = 0;
  std::int64_t rest_ = 0, divisor_ = 1;  // rest_ / divisor_ of a sample, in [0, 1)
};

// For one thread at a time. Errors: std::invalid_argument; std::logic_error for an answer to work that is not pending;
// StreamFinished after `finish`; StreamFailed.
class Stream {
 public:
  static constexpr std::int64_t kMaxGap = std::int64_t{1} << 48;       // samples: centuries
  static constexpr std::int64_t kMaxPosition = std::int64_t{1} << 53;  // samples of 16 kHz

  explicit Stream(std::shared_ptr<const SegmentOptions> options);

  // Continues with samples in ±1 (float) or int16, of any number and any rate in Hz. A sample that is not finite counts
  // as silence; an event reports it, once in a segment.
  template <typename Sample>
  void accept(const Sample* samples, std::size_t count, std::int32_t sample_rate = kSampleRate);
  // `num_samples` of audio were lost here: ends the utterance. 0 does nothing.
  void gap(std::int64_t num_samples, std::int32_t sample_rate = kSampleRate);
  void end_utterance();  // whatever the endpoint rules say
  // Ends the utterance; what follows is recognized with other options.
  void change(std::shared_ptr<const SegmentOptions> options);
  void finish();  // no more audio. Twice is once.

  // The work that the stream waits for; nullptr: none. Valid until it is answered.
  const Work* work() const;
  // Answers it; see Segment. An invalid answer puts the stream in the failed state.
  void stepped(const Rows& log_probs, const Rows& encoder_out, const Rows& phone_log_probs = {});
  void scored(const std::vector<float>& scores);
  void lm_scored(const std::vector<float>& log_probs);
  // (num_units, kNumMarks) and (num_units, kNumCases) probabilities; another number counts as `not_punctuated`.
  void punctuated(const std::vector<float>& mark_probs, const std::vector<float>& case_probs);
  // Case and punctuation could not be computed: the words are shown without, and an event says so, once.
  void not_punctuated(const std::string& reason);
  void fail(const std::string& reason);

  // The events since the last call, oldest first. Never throws StreamFailed.
  std::vector<Event> take_events();

  const std::string& failure() const noexcept { return failure_; }  // "": it has not failed
  // Position of the next sample, in samples of 16 kHz, gaps included.
  std::int64_t sample_offset() const noexcept { return clock_.position(); }
  // Audio, in samples of 16 kHz, that leads to work, see Segment; meaningless while there is work.
  std::int64_t num_wanted() const noexcept;
  std::int64_t num_changes() const noexcept { return num_changes_; }  // of options, that have taken effect
  const Segment& segment() const noexcept { return *segment_; }

 private:
  template <typename Sample>
  struct Audio {
    const Sample* samples;
    std::size_t count;
    std::int32_t sample_rate;
    std::vector<Sample> owned;  // or empty: the caller's
  };
  // The event that ends audio of a sample rate: another rate, the end of a segment, or that of the stream.
  struct Mark {
    enum class Kind { kSampleRate, kSegment, kEnd };
    Kind kind;
    std::int64_t position;       // samples of 16 kHz: of the audio's end
    std::int64_t next_position;  // of the audio after it
    double lost_s = 0.0;
    std::shared_ptr<const SegmentOptions> options = nullptr;  // of the next segment, or as before
  };
  using Item = std::variant<Audio<float>, Audio<std::int16_t>, Mark>;

  void check_usable() const;
  void check_alive() const;
  template <typename Action>
  void guarded(Action action);
  void begin_segment(std::shared_ptr<const SegmentOptions> options);  // nullptr: as before
  void go_on();
  template <typename Sample>
  bool done(Audio<Sample>& audio);
  bool done(Mark& mark);
  void collect_events();
  void show(ShownText text);
  void show(Alternative& alternative) const;
  void show_as_recognized(const std::string& reason);
  void report_first();

  std::shared_ptr<const SegmentOptions> options_;
  std::unique_ptr<Segment> segment_;
  std::optional<TextFormatter> formatter_;  // none: words are shown as they are
  bool formatting_failed_ = false;
  std::deque<Event> unshown_;               // events of the segment that are not formatted yet
  std::unique_ptr<const Work> punctuation_;  // which the first of them waits for
  std::int64_t segment_start_ = 0;  // samples of 16 kHz
  std::int64_t position_ = 0;       // where the last mark that was done left off
  std::unique_ptr<Resampler> resampler_;
  std::vector<float> resampled_;  // the first `num_used_` are in the segment
  std::size_t num_used_ = 0;
  std::deque<Item> queue_;
  std::vector<Event> events_;
  Clock clock_;  // of what was accepted, queued or not
  std::int32_t sample_rate_ = kSampleRate;  // of what was accepted last
  std::int64_t num_changes_ = 0;
  bool finished_ = false;
  std::string failure_;
};

}  // namespace asr_stream
