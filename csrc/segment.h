// A segment: audio without gaps, processed from samples to feature frames, encoder frames and words.
//
// It does everything except running the networks. The caller gets `work()`, computes the answer (with ONNX Runtime in
// Python, in C++ or in a browser, alone or in a batch of many streams) and passes it to `answer`, see work.h:
//
//     for (used = segment.accept(samples, n); const auto work = segment.work();) { ... segment.answer(outputs); }
//
// - The chunk grid starts with the segment, and audio is consumed only up to the end of the next chunk. So the result
//   does not depend on how the audio was split into calls.
// - An endpoint ends an utterance and restarts the search. The encoder keeps its cache, because speaker and room stay
//   the same. The language model keeps its context, because a pause may be inside a sentence. For the same reason, the
//   second pass attends to the end of the previous utterance.
// - Endpoints are detected at every encoder frame, so they do not depend on the chunk size.
// - Partials are computed per chunk, the last one when the utterance has ended. The final comes from the second pass,
//   see second_pass.h. A window that is due before the end is run halfway through the next chunk, so that it does not
//   delay partials.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "contract.h"
#include "endpoint_detector.h"
#include "frontend/fbank.h"
#include "search/joint_search.h"
#include "search/neural_lm.h"
#include "search/words.h"
#include "searcher.h"
#include "second_pass.h"
#include "segment_options.h"
#include "text/punctuation.h"
#include "work.h"

namespace asr_stream {

// A leading word of a partial is stable if every hypothesis within this many nats of the best has it. Less than 1 % of
// the stable words then change in a later partial (benchmarks/stability.py), 5 to 9 % in the final. A larger margin
// delays them and does not change the latter.
inline constexpr double kStableMargin = 3.0;
// Nats that a sentence loses in the choice of the final for each stable word that it lacks, so that such a word changes
// only for a reason. With 1.0, more errors of the first pass stay.
inline constexpr double kStablePenalty = 0.4;
// The last word of a partial is hidden if it is not stable and has a unigram probability below this (1 in 100 000).
// Most of these words are fragments ("PHX" on the way to "PHOENIX").
inline constexpr float kRareLogProb = -11.5f;
inline constexpr std::int64_t kNumCompared = 24;  // maximum number of these hypotheses
// In encoder frames, 5 s: context that the second pass gets from the previous utterance.
inline constexpr std::int64_t kSecondPassContext = 125;

// Another hypothesis for an utterance.
struct Alternative {
  std::string text;  // space-separated words without marks; from a segment as recognized, from a stream as shown
  std::vector<Word> words;
  float confidence;  // the probability that this is what was said
};

struct Event {
  enum class Type { kPartial, kFinal, kGap, kError };  // only streams report gaps, see stream.h

  Type type;
  std::string text;  // space-separated words as shown; a sentence for gaps and errors
  double start_s;    // seconds of the stream
  double end_s;
  std::vector<Word> words;
  std::size_t num_stable = 0;      // partials only: number of leading stable words, see kStableMargin
  const char* endpoint = nullptr;  // finals only: the `name` of the rule that ended it, or kEndOfAudio
  std::string raw = {};            // streams only: the words as recognized
  std::vector<Word> raw_words = {};
  std::vector<Alternative> alternatives = {};  // finals only; most likely first
  std::size_t num_taken_back = 0;  // finals only: number of earlier finals that it takes back ("scratch that")
};

const char* name(Event::Type type);  // "partial", "final", "gap", "error"

inline constexpr const char* kEndOfAudio = "end_of_audio";

// Not thread-safe. Throws std::invalid_argument; std::logic_error for a call out of order.
class Segment {
 public:
  // position: of this segment's first sample in the stream, in samples. Checks the options.
  explicit Segment(std::shared_ptr<const SegmentOptions> options, std::int64_t position = 0);

  // Takes 16 kHz `samples`, at most `num_wanted`. Returns how many were used: all, or as many as were needed for the
  // next work, which must then be done. int16 is scaled by 1/32768.
  template <typename Sample>  // float or std::int16_t
  std::size_t accept(const Sample* samples, std::size_t count);

  // Ends the audio: decodes the rest, which may be shorter than a chunk, and kEndSilence, and ends the utterance.
  void finish();

  // The work that the segment waits for, or nullptr.
  const std::shared_ptr<const Work>& work() const noexcept { return work_; }
  // Answers it. An answer that throws std::invalid_argument, for its shapes or numbers, changes nothing.
  void answer(const Answer& answer);
  // Goes on without an answer, which is not possible without the encoder.
  void not_answered();

  const SegmentOptions& options() const noexcept { return *options_; }
  const std::shared_ptr<const SegmentOptions>& shared_options() const noexcept { return options_; }

  // The events since the last call, oldest first.
  std::vector<Event> take_events();

  // Adds samples that were not finite and were replaced before they were passed to this segment.
  void add_nonfinite(std::int64_t count) noexcept { num_nonfinite_before_ += count; }

  bool finished() const noexcept { return stage_ == Stage::kFinished; }
  std::int64_t num_samples() const noexcept { return fbank_.num_samples() - num_appended_; }  // taken so far
  // Number of samples that complete a chunk, or half of a chunk if a window of the second pass is due. Undefined while
  // there is work.
  std::int64_t num_wanted() const noexcept;
  std::int64_t num_frames() const noexcept { return num_frames_; }            // encoder frames searched so far
  // Sizes of the current utterance: feature frames, and encoder frames for the decoder.
  std::int64_t num_features_kept() const noexcept { return fbank_.num_frames_ready() - fbank_.first_frame(); }
  std::int64_t num_frames_kept() const noexcept {
    return dim_ ? static_cast<std::int64_t>(encoder_out_.size()) / dim_ : 0;
  }
  // Size of its log-probabilities in bytes, which the second pass and the joint search need.
  std::int64_t num_bytes_kept() const noexcept {
    return (second_pass_ ? second_pass_->num_bytes() : 0) + (joint_ ? joint_->num_bytes() : 0);
  }

 private:
  enum class Stage { kWaiting, kSearching, kSecondPass, kRescoring, kFinished };

  // The searcher of the final.
  const Searcher& last_searcher() const { return second_searcher_ ? *second_searcher_ : searcher_; }
  // Words of hypotheses of this searcher. They begin with the utterance or later, so they never cross those of the
  // final before, and end with the audio.
  std::vector<std::vector<Word>> words_of(const Searcher& searcher, const std::vector<Hypothesis>& hypotheses) const;
  const NgramLm::State* context() const { return context_ ? &*context_ : nullptr; }
  void run_until_work();
  // Waits for an answer, which `taken` gets. skipped: what to do without one; null: nothing.
  void request(Work work, void (Segment::*taken)(const Work&, const Answer&), void (Segment::*skipped)() = nullptr);
  void request(EncoderStep step);
  void take_encoded(const Work& work, const Answer& answer);
  void take_sentence_end(const Work& work, const Answer& answer);
  void request_rescoring();
  void take_rescored(const Work& work, const Answer& answer);
  void take_scores(const Work& work, const Answer& answer);
  void take_decoded(const Work& work, const Answer& answer);
  void skip_rescoring();
  void skip_joint_search() { joint_.reset(); }  // the final then comes from the other search
  bool request_chunk();
  void search_chunk();
  void end_utterance();
  bool request_window();
  bool request_second_pass(bool is_over);  // is_over: the utterance has ended
  void search_mean();
  void rescore();
  void search_jointly();
  // Compares these sentences, best first: with the neural language model, then with the decoder.
  void compare(std::vector<Hypothesis> sentences);
  void score_with_decoder();
  void report_final();  // of sentences_
  void begin_utterance();
  void report_partial(bool finished = false);  // finished: the utterance has ended, so its last word is complete
  void report_nonfinite();
  void report(Event::Type type, std::vector<Word> words, std::size_t num_stable = 0);
  std::int64_t likeliest_token() const;
  bool is_rare(const Hypothesis& hypothesis) const;
  double audio_end() const { return seconds(position_ + num_samples()); }
  double now() const { return std::min(seconds(position_ + num_frames_ * kEncoderFrame), audio_end()); }

  std::shared_ptr<const SegmentOptions> options_;
  EndpointDetector endpoints_;
  std::int64_t position_;
  Fbank fbank_;
  std::optional<NgramLm::State> context_;  // language model state after the previous utterance
  Searcher searcher_;
  Stage stage_ = Stage::kWaiting;
  bool input_finished_ = false;
  std::int64_t num_appended_ = 0;  // samples of silence after the end
  bool begun_ = false;
  std::shared_ptr<const Work> work_;
  void (Segment::*taken_)(const Work&, const Answer&) = nullptr;  // see `request`
  void (Segment::*skipped_)() = nullptr;
  std::vector<Event> events_;

  std::int64_t next_feature_ = 0;     // feature frame: the first of the next chunk
  std::int64_t num_frames_ = 0;       // encoder frames searched
  std::int64_t utterance_start_ = 0;  // encoder frame
  std::vector<Word> partial_;         // as last reported
  std::size_t num_stable_ = 0;        // leading stable words of partial_
  EndpointRule endpoint_ = EndpointRule::kNone;
  std::vector<float> encoder_out_;  // (num_frames, dim) of the utterance in the last pass, for the decoder
  std::int64_t dim_ = 0;
  std::int64_t num_valid_ = 0;  // encoder frames of the run in progress

  // The chunk that was stepped, and how many of its frames have been searched.
  std::vector<float> chunk_log_probs_;
  std::vector<float> chunk_phone_log_probs_;
  std::vector<float> chunk_encoder_out_;
  std::int64_t chunk_frames_ = 0;
  std::int64_t chunk_searched_ = 0;
  std::int64_t last_token_ = 0;  // most likely token of the last frame searched

  std::optional<SecondPass> second_pass_;  // over the utterance
  bool window_due_ = false;                // a window is due before the utterance has ended
  std::unique_ptr<Searcher> second_searcher_;  // searches the result of second_pass_
  std::int64_t second_searched_ = 0;           // frames of the utterance
  std::vector<Hypothesis> sentences_;  // that are compared: the best one, then the others, most likely first
  std::size_t num_scored_ = 0;         // of the first of them, see `set_posteriors`
  std::optional<WordIds> word_ids_;    // of sentences_
  std::optional<JointSearch> joint_;  // over the utterance
  std::optional<SentenceRescoring> rescoring_;
  std::vector<std::string> previous_words_;  // of the previous utterance, for the neural language model

  std::int64_t num_nonfinite_before_ = 0;
  bool nonfinite_reported_ = false;
};

}  // namespace asr_stream
