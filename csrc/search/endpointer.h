// Rule-based endpointing on decoded silence: when does an utterance end?
#pragma once

#include <cstdint>

#include "contract.h"

namespace asr_stream {

enum class EndpointRule { kNone, kSilenceAfterSpeech, kSilenceWithoutSpeech, kMaxUtterance };

struct EndpointerOptions {
  // After so much silence once something was said, and when nothing was.
  double silence_after_speech_s = option("silence_after_speech_s").fallback;
  double silence_without_speech_s = option("silence_without_speech_s").fallback;
  double max_utterance_s = option("max_utterance_s").fallback;  // a longer one, between two words, see `update`
  double frame_s = kEncoderFrameS;
};

// Immutable; safe to share between threads. A duration of infinity switches its rule off.
class Endpointer {
 public:
  // std::invalid_argument for a duration that is not positive, and for an infinite `frame_s`.
  explicit Endpointer(const EndpointerOptions& options);

  // Counts are in encoder frames since the start of the utterance; word_begins: the next frame begins a word. A long
  // utterance ends at the next pause, which no word has within it; from 1.25 times its limit also before the next word;
  // at 1.5 times wherever it is, which bounds memory: speech has words before that. std::invalid_argument when a count
  // is negative or the silence is longer than the utterance.
  EndpointRule update(std::int64_t num_frames, std::int64_t num_trailing_silence_frames, bool has_speech,
                      bool word_begins = false) const;

  const EndpointerOptions& options() const noexcept { return options_; }

 private:
  EndpointerOptions options_;
  std::int64_t silence_after_speech_frames_;
  std::int64_t silence_without_speech_frames_;
  std::int64_t max_utterance_frames_;
  std::int64_t late_utterance_frames_;
  std::int64_t hard_max_utterance_frames_;
};

// "silence_after_speech", "silence_without_speech", "max_utterance", or nullptr for kNone.
const char* name(EndpointRule rule) noexcept;

}  // namespace asr_stream
