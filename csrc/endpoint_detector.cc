#include "endpoint_detector.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "text/formatter.h"
#include "text/letter_case.h"

namespace asr_stream {

std::variant<EndpointRule, PunctuationUnits> EndpointDetector::next(const Searcher& search, std::int64_t num_frames,
                                                                    bool word_begins) {
  if (!num_frames) return EndpointRule::kNone;
  const std::int64_t num_blanks = search.num_trailing_blanks();
  const bool has_speech = num_blanks < num_frames;
  EndpointCues known;
  if (has_speech && num_blanks >= endpointer_.min_silence_frames()) {
    const Transcript best = search.transcript();
    if (std::optional<PunctuationUnits> units = question(best.words)) return *std::move(units);
    known = cues(search, best);
  }
  return endpointer_.update(num_frames, num_blanks, has_speech, word_begins, known);
}

// The question whether the sentence is over after these words, unless it has been asked already.
std::optional<PunctuationUnits> EndpointDetector::question(const std::vector<Word>& words) {
  const bool has_network = options_->text && options_->text->punctuation;
  if (!has_network || options_->phrases || !endpointer_.depends_on_cues() || words.empty()) return std::nullopt;
  std::vector<std::string> texts;
  std::vector<double> pauses_s;
  for (std::size_t i = 0; i < words.size(); ++i) {
    texts.push_back(to_lower(words[i].text));
    pauses_s.push_back(i ? std::max(0.0, words[i].start_s - words[i - 1].end_s) : 0.0);
  }
  if (sentence_end_ && sentence_end_->words == texts) return std::nullopt;
  PunctuationUnits units =
      punctuation_units(texts, pauses_s, goes_on_ ? SpecialUnit::kContinues : SpecialUnit::kSentence, true);
  sentence_end_ = SentenceEnd{std::move(texts), units.first_word + units.num_words - 1};
  return units;
}

void EndpointDetector::answer(const Rows& mark_probs) {
  const float* marks = mark_probs.data + sentence_end_->last_unit * kNumMarks;
  const double over = static_cast<double>(marks[static_cast<std::size_t>(Mark::kPeriod)]) +
                      static_cast<double>(marks[static_cast<std::size_t>(Mark::kQuestion)]);
  constexpr double kLeast = 1e-6;
  sentence_end_->log_odds = std::log(std::max(kLeast, over) / std::max(kLeast, 1.0 - over));  // 0 for NaN
}

EndpointCues EndpointDetector::cues(const Searcher& search, const Transcript& best) const {
  EndpointCues cues;
  cues.longest_pause_frames = pauses_.longest(best.hypothesis);
  if (options_->phrases) return cues;  // a phrase is complete, however short
  if (const auto log_prob = search.sentence_end_log_prob()) cues.end_log_prob = *log_prob;
  if (sentence_end_) cues.end_log_odds = sentence_end_->log_odds;
  cues.num_words = static_cast<std::int64_t>(best.words.size());
  return cues;
}

void EndpointDetector::end_utterance(const Searcher& search, bool goes_on) {
  const Transcript best = search.transcript();
  pauses_.end(best.hypothesis, cues(search, best));
  sentence_end_.reset();
  goes_on_ = goes_on;
}

void EndpointDetector::end_silence() {
  pauses_.clear();
  sentence_end_.reset();
}

}  // namespace asr_stream
