#include "segment.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace asr_stream {

namespace {

void append(std::vector<float>& to, const float* from, std::int64_t count) { to.insert(to.end(), from, from + count); }

}  // namespace

const char* name(Event::Type type) {
  switch (type) {
    case Event::Type::kPartial: return "partial";
    case Event::Type::kFinal: return "final";
    case Event::Type::kGap: return "gap";
    case Event::Type::kError: break;
  }
  return "error";
}

Segment::Segment(std::shared_ptr<const SegmentOptions> options, std::int64_t position)
    : options_(checked(std::move(options))),
      endpoints_(options_),
      position_(position),
      searcher_(options_, !options_->options.second_pass) {
  begin_utterance();
}

template <typename Sample>
std::size_t Segment::accept(const Sample* samples, std::size_t count) {
  if (work_ || input_finished_) {
    throw std::logic_error(work_ ? "there is work to be done before more audio" : "the segment is finished");
  }
  const std::size_t used = std::min(count, static_cast<std::size_t>(num_wanted()));
  fbank_.accept_waveform(samples, used);
  run_until_work();
  return used;
}

template std::size_t Segment::accept(const float* samples, std::size_t count);
template std::size_t Segment::accept(const std::int16_t* samples, std::size_t count);

std::int64_t Segment::num_wanted() const noexcept {
  const std::int64_t window = kSubsampling * options_->chunk_size + kFeatureOverlap;
  const std::int64_t last_feature = next_feature_ + (window_due_ ? window / 2 : window) - 1;
  return last_feature * kFrameShift + kFrameReach - fbank_.num_samples();
}

void Segment::finish() {
  if (work_) throw std::logic_error("there is work to be done before the end");
  if (input_finished_) return;
  if (num_samples() > 0) {
    const std::vector<float> silence(kEndSilence);
    fbank_.accept_waveform(silence.data(), silence.size());
    num_appended_ = static_cast<std::int64_t>(silence.size());
  }
  input_finished_ = true;
  fbank_.input_finished();
  run_until_work();
}

void Segment::request(Work work, void (Segment::*taken)(const Work&, const Answer&), void (Segment::*skipped)()) {
  work_ = std::make_shared<const Work>(std::move(work));
  taken_ = taken;
  skipped_ = skipped;
}

void Segment::answer(const Answer& answer) {
  if (!work_) throw std::logic_error("no work is pending");
  check_shapes(*work_, answer);
  const std::shared_ptr<const Work> work = std::exchange(work_, nullptr);
  try {
    (this->*taken_)(*work, answer);
  } catch (const std::invalid_argument&) {
    work_ = work;
    throw;
  }
  run_until_work();
}

void Segment::not_answered() {
  if (!work_ || work_->network == Network::kEncoder) throw std::logic_error("this work needs an answer");
  work_.reset();
  if (skipped_) (this->*skipped_)();
  run_until_work();
}

void Segment::request(EncoderStep step) {
  const std::int64_t num_phone_tokens = searcher_.over_phones() ? options_->num_phone_tokens() : 0;
  const EncoderSizes sizes{static_cast<std::int64_t>(options_->tokens.size()), dim_ ? dim_ : -1, num_phone_tokens,
                           options_->options.left_context_ms / kEncoderFrameMs};
  num_valid_ = step.num_valid / kSubsampling;
  request(encoder_work(std::move(step), sizes), &Segment::take_encoded);
}

void Segment::take_encoded(const Work& work, const Answer& answer) {
  const bool over_phones = searcher_.over_phones();
  const Rows log_probs = rows(answer[0]), encoder_out = rows(answer[1]);
  const Rows phones = over_phones ? rows(answer[2]) : Rows();
  const std::int64_t num_valid = std::min(num_valid_, log_probs.num_frames);
  LogProbChecker().check(log_probs.data, num_valid, log_probs.num_columns);  // must not throw after a change
  if (over_phones) LogProbChecker().check(phones.data, num_valid, phones.num_columns);
  dim_ = encoder_out.num_columns;
  const auto from = [](const Rows& rows, std::int64_t frame) { return rows.data + frame * rows.num_columns; };
  if (work.state->slot != kStreamSlot) {
    const std::int64_t skipped = second_pass_->add(log_probs, phones, num_valid);
    if (work.state->slot == kFirstPassSlot && options_->uses_decoder()) {
      append(encoder_out_, from(encoder_out, skipped), (num_valid - skipped) * dim_);
    }
    search_mean();
  } else {
    chunk_log_probs_.assign(log_probs.data, from(log_probs, num_valid));
    if (over_phones) chunk_phone_log_probs_.assign(phones.data, from(phones, num_valid));
    chunk_encoder_out_.assign(encoder_out.data, from(encoder_out, num_valid));
    chunk_frames_ = num_valid;
    chunk_searched_ = 0;
    stage_ = Stage::kSearching;
  }
}

void Segment::take_sentence_end(const Work&, const Answer& answer) { endpoints_.answer(rows(answer[0])); }

std::vector<Event> Segment::take_events() { return std::exchange(events_, {}); }

void Segment::run_until_work() {
  while (!work_) {
    switch (stage_) {
      case Stage::kWaiting:
        if (request_window()) return;
        if (request_chunk()) return;
        if (!input_finished_) return;
        end_utterance();
        break;
      case Stage::kSearching:
        search_chunk();
        break;
      case Stage::kSecondPass:
        if (request_second_pass(true)) return;
        stage_ = Stage::kRescoring;
        break;
      case Stage::kRescoring:
        rescore();
        break;
      case Stage::kFinished:
        return;
    }
  }
}

// A window of the second pass that is encoded before the utterance has ended.
bool Segment::request_window() {
  if (!window_due_ || (num_wanted() > 0 && !input_finished_)) return false;
  window_due_ = request_second_pass(false);
  return window_due_;
}

bool Segment::request_chunk() {
  const std::int64_t window = kSubsampling * options_->chunk_size + kFeatureOverlap;
  const std::int64_t num_left = fbank_.num_frames_ready() - next_feature_;
  if (num_left < (input_finished_ ? kSubsampling : window)) return false;
  // At the end of the audio, the last feature frames arrive at once and may be slightly more than a chunk.
  const std::int64_t num_new = std::min(num_left / kSubsampling, options_->chunk_size);
  EncoderStep step{kStreamSlot, !begun_, false, {}, kSubsampling * num_new + kFeatureOverlap, 0};
  step.num_valid = std::min(num_left, step.num_frames);
  step.features.resize(static_cast<std::size_t>(step.num_frames * kNumBins));
  fbank_.get_frames(next_feature_, step.num_valid, step.features.data());
  next_feature_ += kSubsampling * num_new;
  begun_ = true;
  request(std::move(step));
  return true;
}

void Segment::search_chunk() {
  const auto vocab_size = static_cast<std::int64_t>(options_->tokens.size());
  for (;;) {
    const bool is_over = chunk_searched_ == chunk_frames_;
    const std::int64_t token = is_over ? kBlankId : likeliest_token();
    if (num_frames_ * kEncoderFrame < num_samples()) {
      // A token may last several frames but begins a word only in the first of them.
      const bool word_begins = token != last_token_ && searcher_.begins_word(token);
      auto next = endpoints_.next(searcher_, num_frames_ - utterance_start_, word_begins);
      if (auto* question = std::get_if<PunctuationUnits>(&next)) {
        return request(punctuation_work(std::move(*question)), &Segment::take_sentence_end);
      }
      endpoint_ = std::get<EndpointRule>(next);
      if (endpoint_ != EndpointRule::kNone) return end_utterance();
    } else {
      endpoint_ = EndpointRule::kNone;
    }
    if (is_over) break;
    last_token_ = token;
    const float* letters = chunk_log_probs_.data() + chunk_searched_ * vocab_size;
    const float* phones = searcher_.over_phones()
                              ? chunk_phone_log_probs_.data() + chunk_searched_ * options_->num_phone_tokens()
                              : nullptr;
    searcher_.advance(letters, phones, 1);
    if (second_pass_) {
      second_pass_->append(letters, vocab_size, phones, options_->num_phone_tokens(), token == kBlankId);
    } else {
      if (joint_) joint_->append(letters);
      if (options_->uses_decoder()) append(encoder_out_, chunk_encoder_out_.data() + chunk_searched_ * dim_, dim_);
    }
    ++chunk_searched_;
    ++num_frames_;
  }
  if (!input_finished_) {
    report_partial();
    report_nonfinite();
  }
  window_due_ = second_pass_ && second_pass_->is_due() && !searcher_.hypotheses().front().tokens.empty();
  stage_ = Stage::kWaiting;
}

// The most likely token of the next frame in the chunk.
std::int64_t Segment::likeliest_token() const {
  const std::vector<float>& log_probs = searcher_.over_phones() ? chunk_phone_log_probs_ : chunk_log_probs_;
  const auto num_tokens = static_cast<std::int64_t>(log_probs.size()) / chunk_frames_;  // of the network: without [unk]
  const auto row = log_probs.begin() + chunk_searched_ * num_tokens;
  return std::max_element(row, row + num_tokens) - row;
}

void Segment::end_utterance() {
  window_due_ = false;
  // Silence needs no second pass. The final must be silent too: a language model may prefer more words at its end.
  if (!second_pass_ || searcher_.hypotheses(1, true).front().tokens.empty()) {
    second_searcher_.reset();
    stage_ = Stage::kRescoring;
    return;
  }
  report_partial(true);  // what the last chunk adds need not wait for the second pass
  stage_ = Stage::kSecondPass;
}

bool Segment::request_second_pass(bool is_over) {
  std::int64_t num_context = 0;
  if (!second_pass_->has_begun() && endpoints_.follows(searcher_.hypotheses(1, is_over).front())) {
    num_context = utterance_start_ - (fbank_.first_frame() + kSubsampling - 1) / kSubsampling;
  }
  std::optional<EncoderStep> step = second_pass_->next(fbank_, num_context, is_over);
  if (!step) {
    if (is_over) search_mean();  // silence at the end, which has no run
    return false;
  }
  request(std::move(*step));
  return true;
}

// Searches the frames for which all passes are done.
void Segment::search_mean() {
  if (!second_searcher_) {
    second_searcher_ = std::make_unique<Searcher>(options_, true);
    second_searcher_->begin_utterance(context());
  }
  for (; second_searched_ < second_pass_->num_done(); ++second_searched_) {
    const HeadLogProbs mean = second_pass_->mean_of(second_searched_);
    second_searcher_->advance(mean.letters.data(), mean.phones.data(), 1);
    if (joint_) joint_->append(mean.letters.data());
  }
}

void Segment::begin_utterance() {
  second_searcher_.reset();
  second_searched_ = 0;
  searcher_.begin_utterance(context());
  encoder_out_.clear();
  sentences_.clear();
  if (options_->searches_jointly()) joint_.emplace(static_cast<std::int64_t>(options_->tokens.size()), options_->joint);
  partial_.clear();
  num_stable_ = 0;
  utterance_start_ = num_frames_;
  if (options_->options.second_pass) second_pass_.emplace(utterance_start_, options_->second_pass_window);
}

void Segment::report_partial(bool finished) {
  std::vector<Hypothesis> likely = searcher_.hypotheses(kNumCompared, finished);
  const double lowest = likely.front().score() - kStableMargin;
  const auto is_unlikely = [&](const Hypothesis& h) { return h.score() < lowest; };
  likely.erase(std::find_if(likely.begin(), likely.end(), is_unlikely), likely.end());
  std::vector<std::vector<Word>> words = words_of(searcher_, likely);
  std::vector<Word>& found = words.front();
  // The last word may be incomplete. Stable words stay stable as long as they do not change.
  std::size_t stable = found.empty() ? 0 : found.size() - 1;
  for (std::size_t i = 1; i < words.size(); ++i) stable = std::min(stable, num_alike(found, words[i]));
  stable = std::max(stable, std::min(num_stable_, num_alike(found, partial_)));
  if (!finished && stable < found.size() && is_rare(likely.front())) found.pop_back();
  const auto first_unstable = found.begin() + static_cast<std::ptrdiff_t>(std::min(stable, found.size()));
  const auto is_hidden = [this](const Word& word) { return options_->hides_fragment(word.text); };
  found.erase(std::find_if(first_unstable, found.end(), is_hidden), found.end());
  const bool is_unchanged = found.size() == partial_.size() && num_alike(found, partial_) == found.size();
  if (is_unchanged && stable == num_stable_) return;
  partial_ = found;
  num_stable_ = stable;
  report(Event::Type::kPartial, std::move(found), stable);
}

std::vector<std::vector<Word>> Segment::words_of(const Searcher& searcher,
                                                 const std::vector<Hypothesis>& hypotheses) const {
  const bool from_utterance = &searcher == second_searcher_.get();
  std::vector<std::vector<Word>> result =
      searcher.words(hypotheses, position_ + (from_utterance ? utterance_start_ * kEncoderFrame : 0));
  // The last frames may be after the end of the audio. Words of these frames get the last frame before it, or a share.
  const double earliest = seconds(position_ + utterance_start_ * kEncoderFrame);
  for (std::vector<Word>& words : result) {
    double latest = audio_end();
    if (earliest >= latest) words.clear();
    for (std::size_t left = words.size(); left > 0 && words[left - 1].end_s > latest; --left) {
      Word& word = words[left - 1];
      word.end_s = latest;
      const double share = (latest - earliest) / static_cast<double>(left);
      latest = word.start_s = std::min(word.start_s, latest - std::min(kEncoderFrameS, share));
    }
  }
  return result;
}

// Whether the last word, which may be incomplete, is very rare. It is then usually the beginning of another word.
bool Segment::is_rare(const Hypothesis& hypothesis) const {
  if (!searcher_.over_phones() || hypothesis.words.empty()) return false;
  const std::int32_t last = hypothesis.words.back();
  return last != LmFusion::kNoWord && options_->fusion->unigram_log_prob(last) < kRareLogProb;
}

void Segment::report_nonfinite() {
  const std::int64_t count = fbank_.num_nonfinite_samples() + num_nonfinite_before_;
  if (!count || nonfinite_reported_) return;
  nonfinite_reported_ = true;
  events_.push_back({Event::Type::kError,
                     std::to_string(count) + (count > 1 ? " samples were" : " sample was") +
                         " not finite (NaN or infinity) and taken for silence; more are not reported",
                     now(), now(), {}});
}

void Segment::report(Event::Type type, std::vector<Word> words, std::size_t num_stable) {
  const double start_s = words.empty() ? now() : words.front().start_s;
  const double end_s = words.empty() ? now() : words.back().end_s;
  std::string text = join(words);
  events_.push_back({type, std::move(text), start_s, end_s, std::move(words), num_stable});
}

}  // namespace asr_stream
