// Finds the ends of utterances with the silence rules and the words before a silence.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "search/ctc_search.h"
#include "search/endpointer.h"
#include "searcher.h"
#include "segment_options.h"
#include "text/punctuation.h"
#include "work.h"

namespace asr_stream {

// A speaker's pauses: within an utterance, and between utterances that an endpoint split from one sentence. Counts are
// in encoder frames of the stream. Not thread-safe.
class Pauses {
 public:
  // The longest pause of this speaker so far. Candidates are the pauses between the tokens of `hypothesis`, half of the
  // longest pause in earlier utterances, and, if the sentence continues, the pause before this utterance.
  std::int64_t longest(const Hypothesis& hypothesis) const {
    std::int64_t longest = expected_;
    if (!was_finished_ && follows(hypothesis)) longest = std::max(longest, hypothesis.start_frames[0] - speech_end_);
    for (std::size_t i = 1; i < hypothesis.start_frames.size(); ++i) {
      longest = std::max<std::int64_t>(longest, hypothesis.start_frames[i] - hypothesis.end_frames[i - 1]);
    }
    return longest;
  }

  // Whether `hypothesis` begins soon after the previous utterance.
  bool follows(const Hypothesis& hypothesis) const {
    return !hypothesis.tokens.empty() && hypothesis.start_frames[0] - speech_end_ <= kLongestInTurn;
  }

  // Must be called when the utterance of `hypothesis` has ended.
  void end(const Hypothesis& hypothesis, const EndpointCues& cues) {
    if (hypothesis.tokens.empty()) return clear();
    expected_ = cues.longest_pause_frames / 2;
    was_finished_ =
        cues.end_log_odds ? *cues.end_log_odds > 0.0 : cues.end_log_prob >= EndpointCues::kUsualEndLogProb;
    speech_end_ = hypothesis.end_frames.back();
  }

  void clear() { *this = {}; }

 private:
  static constexpr std::int64_t kLongestInTurn = 80;  // 3.2 s: after a longer pause, earlier words are irrelevant

  std::int64_t expected_ = 0;
  std::int64_t speech_end_ = -kLongestInTurn - 1;  // end of the previous utterance's last token; initially long ago
  bool was_finished_ = true;  // whether the previous utterance ended a sentence
};

// Not thread-safe.
class EndpointDetector {
 public:
  explicit EndpointDetector(std::shared_ptr<const SegmentOptions> options)
      : options_(std::move(options)), endpointer_(options_->endpointer) {}

  // Returns whether the utterance ends before the next frame, or the input of a run of the punctuation network. In the
  // latter case, call `answer` and then this function again. num_frames: frames of the utterance searched so far.
  // word_begins: the next frame begins a word.
  std::variant<EndpointRule, PunctuationUnits> next(const Searcher& search, std::int64_t num_frames, bool word_begins);
  void answer(const Rows& mark_probs);  // (num_units, kNumMarks)

  // Whether the utterance of `hypothesis` begins soon after the previous one.
  bool follows(const Hypothesis& hypothesis) const { return pauses_.follows(hypothesis); }
  // Must be called after the utterance of `search` has ended. goes_on: it was cut within a sentence.
  void end_utterance(const Searcher& search, bool goes_on);
  void end_silence();  // must be called after an utterance without words has ended

 private:
  // The network's answer for these words. Without log odds, it is pending or failed.
  struct SentenceEnd {
    std::vector<std::string> words;
    std::size_t last_unit;  // of the last word
    std::optional<double> log_odds = std::nullopt;
  };

  std::optional<PunctuationUnits> question(const std::vector<Word>& words);
  EndpointCues cues(const Searcher& search, const Transcript& best) const;

  std::shared_ptr<const SegmentOptions> options_;
  Endpointer endpointer_;
  Pauses pauses_;
  std::optional<SentenceEnd> sentence_end_;
  bool goes_on_ = false;
};

}  // namespace asr_stream
