// Where utterances end: the rules of silence, and the words that say whether a silence is the end of a sentence.
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

// For one thread at a time.
class EndpointDetector {
 public:
  explicit EndpointDetector(std::shared_ptr<const SegmentOptions> options)
      : options_(std::move(options)), endpointer_(options_->endpointer) {}

  // Whether the utterance ends before the next frame, or what the network for punctuation has to say before that is
  // known: answer it, and ask again. num_frames: of the utterance, searched so far. word_begins: the next frame
  // begins a word.
  std::variant<EndpointRule, PunctuationUnits> next(const Searcher& search, std::int64_t num_frames, bool word_begins);
  // mark_probs: (num_units, kNumMarks). Another number, such as none, leaves open whether the sentence is over.
  void answer(const PunctuationUnits& question, const std::vector<float>& mark_probs);

  // Whether the utterance of `hypothesis` begins soon after the one before.
  bool follows(const Hypothesis& hypothesis) const { return pauses_.follows(hypothesis); }
  // The utterance of `search` has ended. goes_on: within a sentence, by force.
  void end_utterance(const Searcher& search, bool goes_on);
  void end_silence();  // an utterance without words has ended

 private:
  // The answer of the network for these words; without log-odds: it is awaited, or has failed.
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
