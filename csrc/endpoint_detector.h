// Finds the ends of utterances with the silence rules and the words before a silence.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "search/endpointer.h"
#include "search/pauses.h"
#include "searcher.h"
#include "segment_options.h"
#include "text/punctuation.h"

namespace asr_stream {

// Not thread-safe.
class EndpointDetector {
 public:
  explicit EndpointDetector(std::shared_ptr<const SegmentOptions> options)
      : options_(std::move(options)), endpointer_(options_->endpointer) {}

  // Returns whether the utterance ends before the next frame, or the input of a run of the punctuation network. In the
  // latter case, call `answer` and then this function again. num_frames: frames of the utterance searched so far.
  // word_begins: the next frame begins a word.
  std::variant<EndpointRule, PunctuationUnits> next(const Searcher& search, std::int64_t num_frames, bool word_begins);
  // mark_probs: (num_units, kNumMarks). Any other size, such as 0, means that there is no answer.
  void answer(const PunctuationUnits& question, const std::vector<float>& mark_probs);

  // Whether the utterance of `hypothesis` begins soon after the previous one.
  bool follows(const Hypothesis& hypothesis) const { return pauses_.follows(hypothesis); }
  // Must be called after the utterance of `search` has ended. goes_on: it was cut within a sentence.
  void end_utterance(const Searcher& search, bool goes_on);
  void end_silence();  // must be called after an utterance without words has ended

 private:
  // The network's answer for these words. Without log odds, it is pending or failed.
  struct SentenceEnd {
    std::vector<std::string> words;
    std::optional<double> log_odds;
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
