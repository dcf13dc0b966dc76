// A segment: audio without a gap, from samples over feature frames and encoder frames to words.
//
// It does everything but run the networks. Its owner calls `work()`, computes the answer (ONNX Runtime in Python, C++
// or a browser; alone, or in a batch of many streams) and passes it to `stepped`, `scored`, `lm_scored` or
// `punctuated`:
//
//     for (used = segment.accept(samples, n); const Work* work = segment.work();) { ... segment.stepped(...); }
//
// - The chunk grid starts with the segment, and audio is taken up to exactly the next chunk's end: the result
//   does not depend on how the audio was cut into pushes.
// - An endpoint ends an utterance: the search starts again. The encoder keeps its cache, because speaker and room stay
//   the same; the language model keeps its context, because a pause may be inside a sentence. For the same reason the
//   second pass attends to the end of the utterance before.
// - Endpoints are detected at every encoder frame, so they do not depend on the chunk size.
// - Partials come from chunks, the last one when the utterance has ended. The final comes from the second pass, see
//   second_pass.h. A window that is due before the end is run when half of the next chunk is there, so that it delays
//   no partial.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "contract.h"
#include "encoder_step.h"
#include "endpoint_detector.h"
#include "frontend/fbank.h"
#include "search/neural_lm.h"
#include "search/words.h"
#include "searcher.h"
#include "second_pass.h"
#include "segment_options.h"
#include "text/punctuation.h"

namespace asr_stream {

// A leading word of a partial is stable when every hypothesis within this many nats of the best has it. Less than 1 %
// of the stable words then change in a later partial (benchmarks/stability.py).
inline constexpr double kStableMargin = 3.0;
// A last word of a partial that is neither stable nor as likely as this, 1 in 100 000, is not shown: most of such words
// are fragments ("PHX" on the way to "PHOENIX").
inline constexpr float kRareLogProb = -11.5f;
inline constexpr std::int64_t kNumCompared = 24;  // of these hypotheses, at most
// Encoder frames, 5 s: left context of the second pass from the previous utterance.
inline constexpr std::int64_t kSecondPassContext = 125;

// One run of the decoder, which scores whole sentences.
struct DecoderScoring {
  std::vector<std::vector<std::int32_t>> tokens;  // of N hypotheses, without sentence marks
  std::vector<float> encoder_out;                 // (num_frames, dim)
  std::int64_t num_frames;
};

// PunctuationUnits: one run of the network for case and punctuation. A segment asks it whether a sentence is over, a
// stream for the text that it shows (stream.h). PieceTree: one run of the neural language model.
using Work = std::variant<EncoderStep, DecoderScoring, PunctuationUnits, PieceTree>;

// `work` as this kind. std::logic_error: it is null or of another kind.
template <typename Kind>
const Kind& asked_for(const Work* work) {
  const Kind* found = std::get_if<Kind>(work);
  if (!found) throw std::logic_error("this kind of work is not pending");
  return *found;
}

// Another reading of an utterance.
struct Alternative {
  std::string text;  // words with a space between them: of a segment as recognized, of a stream as shown, without marks
  std::vector<Word> words;
  float confidence;  // the probability that this is what was said
};

struct Event {
  enum class Type { kPartial, kFinal, kGap, kError };  // gaps are a stream's, see stream.h

  Type type;
  std::string text;  // words as they are shown, with a space between them; of a gap and an error, a sentence
  double start_s;    // seconds of the stream
  double end_s;
  std::vector<Word> words;
  std::size_t num_stable = 0;      // of a partial: leading words that will hardly change in later ones
  const char* endpoint = nullptr;  // of a final: what ended the utterance, a `name` of a rule, or kEndOfAudio
  std::string raw = {};            // of a stream: the words as they are recognized
  std::vector<Word> raw_words = {};
  std::vector<Alternative> alternatives = {};  // of a final, the likeliest first
  std::size_t num_taken_back = 0;  // finals only: number of earlier finals that it takes back ("scratch that")
};

const char* name(Event::Type type);  // "partial", "final", "gap", "error"

inline constexpr const char* kEndOfAudio = "end_of_audio";

// For one thread at a time. Errors: std::invalid_argument; std::logic_error for a call out of turn.
class Segment {
 public:
  // start_s: seconds of the stream before this segment's first sample. Checks the options.
  Segment(std::shared_ptr<const SegmentOptions> options, double start_s = 0.0);

  // Takes `samples` of 16 kHz, up to `num_wanted`. Returns how many were used: all, or as many as led to work, which is
  // then to be done. int16 is scaled by 1/32768.
  template <typename Sample>  // float or std::int16_t
  std::size_t accept(const Sample* samples, std::size_t count);

  // No more audio: the rest is decoded, ragged as it is, and the utterance ends.
  void finish();

  // The work that the segment waits for; nullptr: none. Valid until it is answered.
  const Work* work() const noexcept { return work_.get(); }

  // Answers an EncoderStep: log_probs (c, vocab_size), encoder_out (c, dim) and, where the options have phones,
  // phone_log_probs (c, num_phone_tokens), of all c frames.
  void stepped(const Rows& log_probs, const Rows& encoder_out, const Rows& phone_log_probs = {});
  // Answers a DecoderScoring: log-probabilities (N,), one per hypothesis.
  void scored(const std::vector<float>& scores);
  // Answers a PieceTree: log-probability of each piece after those before it, (num_nodes,); that of the root is
  // ignored.
  void lm_scored(const std::vector<float>& log_probs);

  // Answers PunctuationUnits: (num_units, kNumMarks) probabilities. An answer of another size, such as an empty one,
  // leaves open whether the sentence is over.
  void punctuated(const std::vector<float>& mark_probs);

  // The events since the last call, oldest first.
  std::vector<Event> take_events();

  // Counts samples that were not finite and were replaced before they came here.
  void add_nonfinite(std::int64_t count) noexcept { num_nonfinite_before_ += count; }

  bool finished() const noexcept { return stage_ == Stage::kFinished; }
  std::int64_t num_samples() const noexcept { return fbank_.num_samples(); }  // taken so far
  // Samples that complete a chunk, or half of one where a window of the second pass is due; of no meaning while there
  // is work.
  std::int64_t num_wanted() const noexcept;
  std::int64_t num_frames() const noexcept { return num_frames_; }            // encoder frames searched so far
  // The current utterance: feature frames, and encoder frames for the decoder.
  std::int64_t num_features_kept() const noexcept { return fbank_.num_frames_ready() - fbank_.first_frame(); }
  std::int64_t num_frames_kept() const noexcept {
    return dim_ ? static_cast<std::int64_t>(encoder_out_.size()) / dim_ : 0;
  }
  // Bytes of its log-probabilities, which the second pass needs.
  std::int64_t num_bytes_kept() const noexcept { return second_pass_ ? second_pass_->num_bytes() : 0; }

 private:
  enum class Stage { kWaiting, kSearching, kSecondPass, kRescoring, kFinished };

  // The searcher that the final comes from.
  const Searcher& last_searcher() const { return second_searcher_ ? *second_searcher_ : searcher_; }
  double last_start_s() const { return start_s_ + (second_searcher_ ? seconds(utterance_start_) : 0.0); }
  const NgramLm::State* context() const { return context_ ? &*context_ : nullptr; }
  void proceed();
  bool request_chunk();
  void search_chunk();
  void end_utterance();
  bool request_window();
  bool request_second_pass(bool is_over);  // is_over: the utterance has ended
  void search_mean();
  void rescore();
  void rescore_sentences(std::vector<Hypothesis> sentences);
  // sentences: the chosen one, then the others, the likeliest first.
  void keep_distinct(std::vector<Hypothesis>& hypotheses) const;
  void report_final(std::vector<Hypothesis> sentences);
  void begin_utterance();
  void report_partial(bool finished = false);  // finished: the utterance is over, so its last word is complete
  void report_nonfinite();
  void report(Event::Type type, std::vector<Word> words, std::size_t num_stable = 0);
  std::int64_t likeliest_token() const;
  bool is_rare(const Hypothesis& hypothesis) const;
  static double seconds(std::int64_t frame) { return static_cast<double>(frame) * kEncoderFrameS; }
  double now() const { return start_s_ + seconds(num_frames_); }

  std::shared_ptr<const SegmentOptions> options_;
  EndpointDetector endpoints_;
  double start_s_;
  Fbank fbank_;
  std::optional<NgramLm::State> context_;  // of the language model, from the utterance before
  Searcher searcher_;
  Stage stage_ = Stage::kWaiting;
  bool input_finished_ = false;
  bool begun_ = false;
  std::unique_ptr<const Work> work_;
  std::vector<Event> events_;

  std::int64_t next_feature_ = 0;     // feature frame: the first of the next chunk
  std::int64_t num_frames_ = 0;       // encoder frames searched
  std::int64_t utterance_start_ = 0;  // encoder frame
  std::vector<Word> partial_;         // as last reported
  std::size_t num_stable_ = 0;        // of it
  EndpointRule endpoint_ = EndpointRule::kNone;
  std::vector<float> encoder_out_;  // (num_frames, dim) of the utterance, for the decoder: of the pass that is last
  std::int64_t dim_ = 0;

  // The chunk that was stepped, and how many of its frames have been searched.
  std::vector<float> chunk_log_probs_;
  std::vector<float> chunk_phone_log_probs_;
  std::vector<float> chunk_encoder_out_;
  std::int64_t chunk_frames_ = 0;
  std::int64_t chunk_searched_ = 0;
  std::int64_t last_token_ = 0;  // the likeliest of the frame that was searched last

  std::optional<SecondPass> second_pass_;  // over the utterance
  bool window_due_ = false;                // of it, before the utterance has ended
  std::unique_ptr<Searcher> second_searcher_;  // in what it has
  std::int64_t second_searched_ = 0;           // frames of the utterance
  std::vector<Hypothesis> nbest_;
  std::optional<SentenceRescoring> rescoring_;
  std::vector<std::string> previous_words_;  // of the utterance before, for the neural language model

  std::int64_t num_nonfinite_before_ = 0;
  bool nonfinite_reported_ = false;
};

}  // namespace asr_stream
