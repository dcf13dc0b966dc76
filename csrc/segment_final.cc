// The final of a segment: the decoder, the neural language model, and the choice between sentences.
#include "segment.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "search/words.h"

namespace asr_stream {

namespace {

// Four for each alternative, because some differ only in tokens, not in words.
std::int64_t num_hypotheses(const SegmentOptions& options) { return 1 + 4 * options.options.max_alternatives; }

}  // namespace

void Segment::rescore() {
  const Searcher& searcher = last_searcher();
  if (joint_ && !searcher.hypotheses(1, true).front().tokens.empty()) return search_jointly();
  const std::int64_t num_rescored = options_->rescores() ? options_->options.num_rescored : 1;
  const bool many = options_->neural_lm || searcher.has_lattice();
  compare(searcher.sentences(many ? kNumSentences : std::max(num_rescored, num_hypotheses(*options_))));
}

void Segment::compare(std::vector<Hypothesis> sentences) {
  sentences_ = std::move(sentences);
  word_ids_.emplace(options_->fusion.get());
  last_searcher().set_words(sentences_, *word_ids_);
  if (options_->neural_lm && last_searcher().by_spelling()) keep_distinct(sentences_);
  num_scored_ = sentences_.size();
  if (!options_->neural_lm || sentences_.size() == 1 || sentences_.front().tokens.empty()) return score_with_decoder();
  const LmFusion* fusion = options_->fusion.get();
  rescoring_.emplace(fusion && fusion->has_lm() ? fusion : nullptr, *options_->neural_lm,
                     options_->calibration.neural_lm_weights, std::move(sentences_), *word_ids_, previous_words_,
                     context());
  request_rescoring();
}

// The next part of the sentences, or the choice between them after the last one.
void Segment::request_rescoring() {
  if (const std::optional<PieceTree> part = rescoring_->next_part()) {
    return request(tree_work(*part), &Segment::take_rescored, &Segment::skip_rescoring);
  }
  sentences_ = rescoring_->rescored();
  num_scored_ = rescoring_->num_rescored();
  rescoring_.reset();
  score_with_decoder();
}

void Segment::take_rescored(const Work&, const Answer& answer) {
  rescoring_->add(numbers(answer[0]));
  request_rescoring();
}

void Segment::skip_rescoring() {
  sentences_ = std::exchange(rescoring_, std::nullopt)->take_sentences();
  score_with_decoder();
}

void Segment::score_with_decoder() {
  if (num_stable_ && options_->neural_lm && last_searcher().has_lattice()) {
    std::vector<std::int32_t> stable;
    for (std::size_t i = 0; i < num_stable_; ++i) stable.push_back(word_ids_->of(partial_[i].text));
    prefer_words(sentences_, num_scored_, stable, kStablePenalty);
  }
  const auto num_rescored = static_cast<std::size_t>(options_->rescores() ? options_->options.num_rescored : 1);
  const std::size_t count = std::min(num_scored_, num_rescored);
  if (count == 1 || sentences_.front().tokens.empty()) return report_final();
  std::vector<std::vector<std::int32_t>> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(sentences_[i].tokens);
  request(decoder_work(tokens, std::move(encoder_out_), dim_), &Segment::take_scores, &Segment::report_final);
}

// The next step of the decoder, or the final after the last one.
void Segment::search_jointly() {
  std::optional<DecoderStep> step = joint_->step();
  if (!step) {
    const auto count = static_cast<std::size_t>(options_->neural_lm ? kNumSentences : num_hypotheses(*options_));
    return compare(joint_->hypotheses(count, options_->options.second_pass ? 0 : utterance_start_));
  }
  const auto vocab_size = static_cast<std::int64_t>(options_->tokens.size());
  request(decoder_work(std::move(*step), std::exchange(encoder_out_, {}), dim_, vocab_size), &Segment::take_decoded,
          &Segment::skip_joint_search);
}

void Segment::take_decoded(const Work&, const Answer& answer) {
  joint_->answer(rows(answer[0]));
  search_jointly();
}

void Segment::take_scores(const Work&, const Answer& answer) {
  const std::vector<float> scores = numbers(answer[0]);
  const auto first = sentences_.begin();
  const auto best = static_cast<std::ptrdiff_t>(
      best_rescored({first, first + answer[0].shape[0]}, scores, options_->options.rescore_ctc_weight));
  std::rotate(first, first + best, first + best + 1);
  report_final();
}

void Segment::report_final() {
  std::vector<Hypothesis> sentences = std::move(sentences_);
  const auto count = static_cast<std::size_t>(1 + options_->options.max_alternatives);
  if (count > 1 && last_searcher().by_spelling()) keep_distinct(sentences);
  if (sentences.size() > 1 || last_searcher().has_lattice()) {
    set_posteriors(sentences, std::min(num_scored_, sentences.size()), count);
  }
  sentences.resize(std::min(count, sentences.size()));
  std::vector<std::vector<Word>> words = words_of(last_searcher(), sentences);
  const std::vector<Word>& best = words.front();
  if (best.empty()) {
    endpoints_.end_silence();
    context_.reset();
    previous_words_.clear();
    if (!partial_.empty()) report(Event::Type::kPartial, {});  // withdraws the partial
  } else {
    // A cut within a silence this long is the end of the sentence.
    const bool in_silence = now() - best.back().end_s >= kSentencePauseS;
    if (endpoint_ == EndpointRule::kMaxUtterance && in_silence) endpoint_ = EndpointRule::kSilenceAfterSpeech;
    endpoints_.end_utterance(searcher_, endpoint_ == EndpointRule::kMaxUtterance);
    std::vector<std::string_view> texts;
    for (const Word& word : best) texts.push_back(word.text);
    if (options_->fusion && options_->fusion->has_lm()) context_ = options_->fusion->context_after(context(), texts);
    if (options_->neural_lm) previous_words_.assign(texts.begin(), texts.end());
    report(Event::Type::kFinal, best);
    Event& event = events_.back();
    event.endpoint = endpoint_ == EndpointRule::kNone ? kEndOfAudio : name(endpoint_);
    for (std::size_t i = 1; i < words.size(); ++i) {
      std::string text = join(words[i]);
      event.alternatives.push_back({std::move(text), std::move(words[i]), sentences[i].posterior});
    }
  }
  const std::int64_t context = options_->options.second_pass && !best.empty() ? kSecondPassContext : 0;
  const std::int64_t kept = std::max<std::int64_t>(num_frames_ - context, 0);
  fbank_.discard_frames(std::min(kSubsampling * kept, fbank_.num_frames_ready()));
  begin_utterance();
  if (chunk_searched_ < chunk_frames_ || !input_finished_) {
    stage_ = Stage::kSearching;  // the rest of the chunk in which it ended
  } else if (fbank_.num_frames_ready() - next_feature_ >= kSubsampling) {
    stage_ = Stage::kWaiting;
  } else {
    report_nonfinite();
    stage_ = Stage::kFinished;
  }
}

}  // namespace asr_stream
