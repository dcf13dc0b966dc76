#include "search/endpointer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace asr_stream {

namespace {

// A word is complete after this many blanks. Of 3945 tokens inside words of `dev`, none came after this many blanks; of
// 1124 tokens that begin a word, 47 did. After two or more blanks, a token continued a word nearly as often as it ended
// one.
constexpr std::int64_t kPauseFrames = 6;

constexpr double kLikelyEndLogProb = -1.5, kUnlikelyEndLogProb = -6.0;
constexpr double kLikelyEndLogOdds = 2.0, kUnlikelyEndLogOdds = -4.0;

// Rounds to whole frames, so that 20 frames of 0.04 s are 0.8 s despite rounding errors.
std::int64_t to_frames(double seconds) {
  const double frames = std::ceil(seconds / kEncoderFrameS - 1e-6);
  if (frames >= 9e18) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(frames));
}

}  // namespace

Endpointer::Endpointer(const EndpointerOptions& options) : options_(options) {
  silence_after_speech_frames_ = to_frames(options.silence_after_speech_s);
  min_silence_after_speech_frames_ =
      std::min(to_frames(options.min_silence_after_speech_s), silence_after_speech_frames_);
  silence_without_speech_frames_ = to_frames(options.silence_without_speech_s);
  max_utterance_frames_ = to_frames(options.max_utterance_s);
  sentence_pause_frames_ = to_frames(kSentencePauseS);
  long_utterance_frames_ = to_frames(1.125 * options.max_utterance_s);
  late_utterance_frames_ = to_frames(1.25 * options.max_utterance_s);
  hard_max_utterance_frames_ = to_frames(1.5 * options.max_utterance_s);
}

std::int64_t Endpointer::silence_frames(const EndpointCues& cues) const noexcept {
  if (std::isinf(options_.silence_after_speech_s)) return silence_after_speech_frames_;
  const SilenceWeights& weights = cues.end_log_odds ? options_.with_punctuation : options_.without_punctuation;
  const double end_log_prob = std::clamp(cues.end_log_prob, kUnlikelyEndLogProb, kLikelyEndLogProb);
  const double end_log_odds = std::clamp(cues.end_log_odds.value_or(0.0), kUnlikelyEndLogOdds, kLikelyEndLogOdds);
  const auto num_words = static_cast<double>(std::min(cues.num_words, EndpointCues::kManyWords));
  const double seconds = weights.base_s - weights.per_nat_s * end_log_prob - weights.per_log_odds_s * end_log_odds +
                         weights.few_words_s * std::log((EndpointCues::kManyWords + 0.5) / (num_words + 0.5));
  const double pause = weights.per_pause * static_cast<double>(cues.longest_pause_frames);
  return std::clamp(std::max(to_frames(seconds), static_cast<std::int64_t>(pause)),
                    min_silence_after_speech_frames_, silence_after_speech_frames_);
}

bool Endpointer::depends_on_cues() const noexcept {
  return min_silence_after_speech_frames_ < silence_after_speech_frames_ &&
         !std::isinf(options_.silence_after_speech_s);
}

EndpointRule Endpointer::update(std::int64_t num_frames, std::int64_t num_trailing_silence_frames, bool has_speech,
                                bool word_begins, const EndpointCues& cues) const {
  if (has_speech && num_trailing_silence_frames >= silence_frames(cues)) {
    return EndpointRule::kSilenceAfterSpeech;
  }
  if (!has_speech && num_trailing_silence_frames >= silence_without_speech_frames_) {
    return EndpointRule::kSilenceWithoutSpeech;
  }
  const bool in_pause =
      num_trailing_silence_frames >= (num_frames < long_utterance_frames_ ? sentence_pause_frames_ : kPauseFrames);
  if ((num_frames >= max_utterance_frames_ && in_pause) || (num_frames >= late_utterance_frames_ && word_begins) ||
      num_frames >= hard_max_utterance_frames_) {
    return EndpointRule::kMaxUtterance;
  }
  return EndpointRule::kNone;
}

const char* name(EndpointRule rule) noexcept {
  switch (rule) {
    case EndpointRule::kSilenceAfterSpeech: return "silence_after_speech";
    case EndpointRule::kSilenceWithoutSpeech: return "silence_without_speech";
    case EndpointRule::kMaxUtterance: return "max_utterance";
    case EndpointRule::kNone: break;
  }
  return nullptr;
}

}  // namespace asr_stream
