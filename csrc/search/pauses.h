// A speaker's pauses: within an utterance, and between utterances that an endpoint split from one sentence.
#pragma once

#include <algorithm>
#include <cstdint>

#include "search/ctc_search.h"
#include "search/endpointer.h"

namespace asr_stream {

// Counts are in encoder frames of the stream. Not thread-safe.
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

}  // namespace asr_stream
