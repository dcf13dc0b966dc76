// Rule-based endpointing. The silence that ends an utterance depends on its words, as in semantic endpointing (Bijwadia
// et al. 2022; Shi et al. 2023, arXiv 2305.12450). It is short if the punctuation network and the language model expect
// the end of the sentence. It is longer if they do not, after few words, and if the speaker has paused before.
#pragma once

#include <cstdint>
#include <optional>

#include "calibration.h"
#include "options.h"

namespace asr_stream {

// A pause of this length ends a sentence: most sentences end with such a pause, most phrases do not.
inline constexpr double kSentencePauseS = 0.5;

enum class EndpointRule { kNone, kSilenceAfterSpeech, kSilenceWithoutSpeech, kMaxUtterance };

struct EndpointerOptions {
  // The longest and the shortest silence that ends an utterance with words, and the silence that ends one without
  // words. If the longest is below the shortest, the longest is used for both.
  double silence_after_speech_s = option("silence_after_speech_s").default_value;
  double min_silence_after_speech_s = option("min_silence_after_speech_s").default_value;
  double silence_without_speech_s = option("silence_without_speech_s").default_value;
  double max_utterance_s = option("max_utterance_s").default_value;  // see `update`
  // From the model's metadata.
  SilenceWeights with_punctuation = Calibration().endpoint_with_punctuation;
  SilenceWeights without_punctuation = Calibration().endpoint_without_punctuation;
};

// Features of an utterance at a pause. The defaults are neutral values.
struct EndpointCues {
  static constexpr double kUsualEndLogProb = -3.0;  // close to the median at sentence ends
  static constexpr std::int64_t kManyWords = 6;     // more words make no difference

  double end_log_prob = kUsualEndLogProb;  // the language model's log P(</s>) after these words
  std::int64_t num_words = kManyWords;
  std::int64_t longest_pause_frames = 0;   // between two tokens
  // Log odds of the punctuation network that the sentence has ended; none without that network.
  std::optional<double> end_log_odds = std::nullopt;
};

// Immutable and thread-safe. Durations are positive, as the options' ranges say; an infinite one turns its rule off.
class Endpointer {
 public:
  explicit Endpointer(const EndpointerOptions& options);

  // Frames of silence that end an utterance with speech; the maximum if none do.
  std::int64_t silence_frames(const EndpointCues& cues) const noexcept;
  // Whether the features matter; if not, the silence is fixed or turned off.
  bool depends_on_cues() const noexcept;
  // The fewest frames of silence at which the features matter.
  std::int64_t min_silence_frames() const noexcept { return min_silence_after_speech_frames_; }

  // Counts are in encoder frames since the start of the utterance. word_begins: the next frame begins a word. An
  // utterance longer than max_utterance_s ends at the next pause between sentences. From 1.125 times that length, it
  // ends at the next pause longer than pauses within words; from 1.25 times, also before the next word; at 1.5 times,
  // anywhere. The last limit bounds memory; speech has word boundaries before it.
  EndpointRule update(std::int64_t num_frames, std::int64_t num_trailing_silence_frames, bool has_speech,
                      bool word_begins = false, const EndpointCues& cues = {}) const;

 private:
  EndpointerOptions options_;
  std::int64_t silence_after_speech_frames_;
  std::int64_t min_silence_after_speech_frames_;
  std::int64_t silence_without_speech_frames_;
  std::int64_t max_utterance_frames_;
  std::int64_t sentence_pause_frames_;
  std::int64_t long_utterance_frames_;
  std::int64_t late_utterance_frames_;
  std::int64_t hard_max_utterance_frames_;
};

// "silence_after_speech", "silence_without_speech", "max_utterance", or nullptr for kNone.
const char* name(EndpointRule rule) noexcept;

}  // namespace asr_stream
