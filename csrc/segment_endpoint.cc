// Where an utterance of a segment ends: what is known of its words, and what the network for punctuation is asked.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "segment.h"
#include "text/formatter.h"
#include "text/letter_case.h"

namespace asr_stream {

// Whether the utterance ends before the next frame.
EndpointRule Segment::endpoint(bool word_begins, const Transcript* best) const {
  const std::int64_t length = num_frames_ - utterance_start_;
  if (!length) return EndpointRule::kNone;
  const std::int64_t num_blanks = std::visit([](const auto& s) { return s.num_trailing_blanks(); }, searches_.search);
  return endpointer_.update(length, num_blanks, num_blanks < length, word_begins, best ? cues(*best) : EndpointCues{});
}

// The words before a silence that may end the utterance; none: it may not.
std::optional<Segment::Transcript> Segment::best_in_silence() const {
  const std::int64_t num_blanks = std::visit([](const auto& s) { return s.num_trailing_blanks(); }, searches_.search);
  const bool has_speech = num_blanks < num_frames_ - utterance_start_;
  if (!has_speech || num_blanks < endpointer_.min_silence_frames()) return std::nullopt;
  return transcript();
}

// Asks whether the sentence is over behind these words, once.
bool Segment::request_punctuation(const std::vector<Word>& words) {
  const bool has_network = options_->text && options_->text->punctuation;
  if (!has_network || options_->phrases || !endpointer_.depends_on_cues() || words.empty()) return false;
  std::vector<std::string> texts;
  std::vector<double> pauses_s;
  for (std::size_t i = 0; i < words.size(); ++i) {
    texts.push_back(to_lower(words[i].text));
    pauses_s.push_back(i ? std::max(0.0, words[i].start_s - words[i - 1].end_s) : 0.0);
  }
  if (sentence_end_ && sentence_end_->words == texts) return false;
  work_ = std::make_unique<const Work>(
      punctuation_units(texts, pauses_s, continues_ ? SpecialUnit::kContinues : SpecialUnit::kSentence, true));
  sentence_end_ = SentenceEnd{std::move(texts), std::nullopt};
  return true;
}

EndpointCues Segment::cues(const Transcript& best) const {
  EndpointCues cues;
  cues.longest_pause_frames = pauses_.longest(best.hypothesis);
  if (options_->phrases) return cues;  // one of them is complete, however short
  if (const auto* search = std::get_if<CtcPrefixBeamSearch>(&searches_.search)) {
    if (const auto log_prob = search->sentence_end_log_prob()) cues.end_log_prob = *log_prob;
  }
  if (sentence_end_) cues.end_log_odds = sentence_end_->log_odds;
  cues.num_words = static_cast<std::int64_t>(best.words.size());
  return cues;
}

void Segment::punctuated(const std::vector<float>& mark_probs) {
  const auto& units = asked_for<PunctuationUnits>(work());
  if (mark_probs.size() == units.pauses.size() * kNumMarks) {
    const float* marks = &mark_probs[(units.first_word + units.num_words - 1) * kNumMarks];
    const double over = static_cast<double>(marks[static_cast<std::size_t>(Mark::kPeriod)]) +
                        static_cast<double>(marks[static_cast<std::size_t>(Mark::kQuestion)]);
    constexpr double kLeast = 1e-6;
    sentence_end_->log_odds = std::log(std::max(over, kLeast) / std::max(1.0 - over, kLeast));
  }
  work_.reset();
  proceed();
}

}  // namespace asr_stream
