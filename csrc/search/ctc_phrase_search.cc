#include "search/ctc_phrase_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

#include "search/words.h"

namespace asr_stream {

namespace {

// States this many nats below the best are dropped. A few letters without any evidence cost less than this.
constexpr double kThreshold = 40.0;
// Maximum number of states, of which the best are kept. Short lists of phrases never reach it.
constexpr std::size_t kMaxStates = 4096;

}  // namespace

CtcPhraseSearch::CtcPhraseSearch(std::shared_ptr<const Phrases> phrases) : phrases_(std::move(phrases)) {
  if (!phrases_) throw std::invalid_argument("a phrase search needs phrases");
  candidate_of_step_.assign(phrases_->num_steps() + 2, -1);
  reset();
}

void CtcPhraseSearch::reset() {
  for (const State& state : states_) release(state);
  State start{kStart, {}, {}};
  start.blank.score = 0.0;
  states_.assign(1, start);
  utterance_start_ = num_frames_;
}

void CtcPhraseSearch::advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size) {
  checker_.check(log_probs, num_frames, vocab_size);
  if (vocab_size != phrases_->num_model_tokens()) {
    throw std::invalid_argument("vocab_size is " + std::to_string(vocab_size) + ", but the phrases were given " +
                                std::to_string(phrases_->num_model_tokens()) + " tokens");
  }
  for (std::int64_t t = 0; t < num_frames; ++t) advance_frame(log_probs + t * vocab_size);
}

void CtcPhraseSearch::advance_frame(const float* log_probs) {
  const auto vocab_size = static_cast<std::int32_t>(phrases_->num_model_tokens());
  likeliest_ = static_cast<std::int32_t>(std::max_element(log_probs, log_probs + vocab_size) - log_probs);
  word_start_ = -1;
  for (std::int32_t token = 0; token < vocab_size; ++token) {
    if (!phrases_->begins_word(token)) continue;
    if (word_start_ < 0 || log_probs[token] > log_probs[word_start_]) word_start_ = token;
  }

  candidates_.clear();
  for (const State& state : states_) propose_stay(state, log_probs);
  double best = kNever;
  for (const Candidate& candidate : candidates_) best = std::max(best, candidate.score());
  for (const State& state : states_) propose_exits(state, log_probs, best - kThreshold);
  for (const Candidate& candidate : candidates_) best = std::max(best, candidate.score());

  double lowest = best - kThreshold;
  if (candidates_.size() > kMaxStates) {
    scores_.clear();
    for (const Candidate& candidate : candidates_) scores_.push_back(candidate.score());
    const auto last_kept = scores_.begin() + (kMaxStates - 1);
    std::nth_element(scores_.begin(), last_kept, scores_.end(), std::greater<>());
    lowest = std::max(lowest, *last_kept);
  }

  next_states_.clear();
  for (const Candidate& candidate : candidates_) {
    candidate_of_step_[static_cast<std::size_t>(candidate.step + 2)] = -1;
    // [unk] and the start state are never pruned, so that there is always a final state.
    const bool kept = candidate.step < 0 || candidate.score() >= lowest;
    if (!kept || std::isinf(candidate.score())) continue;
    State state{candidate.step, extended(candidate.blank), {}};
    if (candidate.token.alignment != nullptr) {
      const bool after_phrase = candidate.token.starts && candidate.token.from->step != kStart;
      const std::int32_t unknown = after_phrase ? word_start_ : likeliest_;  // see propose_exits
      const std::int32_t token = candidate.step == kUnknown ? unknown : token_at(candidate.step);
      state.token = extended(candidate.token);
      if (token != kBlankId) {  // the likeliest token of [unk] may be blank
        state.token.last.end = num_frames_ + 1;
        state.token.last.log_prob += static_cast<double>(log_probs[token]);
      }
    }
    next_states_.push_back(state);
  }
  for (const State& state : states_) release(state);
  states_.swap(next_states_);
  previous_likeliest_ = likeliest_;
  ++num_frames_;
}

// [unk] has a single alignment, which also covers blanks.
void CtcPhraseSearch::propose_stay(const State& state, const float* log_probs) {
  const Alignment& best = state.best();
  if (state.step == kUnknown) {
    const bool another = likeliest_ != kBlankId && likeliest_ != previous_likeliest_;
    const double cost = another ? static_cast<double>(phrases_->unknown_cost()) : 0.0;
    const double score = best.score + static_cast<double>(log_probs[likeliest_]) - cost;
    return propose(kUnknown, {score, &state, &best, false}, false);
  }
  const auto blank = static_cast<double>(log_probs[kBlankId]);
  propose(state.step, {best.score + blank, &state, &best, false}, true);
  if (state.step == kStart) return;
  const auto repeated = static_cast<double>(log_probs[token_at(state.step)]);
  propose(state.step, {state.token.score + repeated, &state, &state.token, false}, false);
}

void CtcPhraseSearch::propose_exits(const State& state, const float* log_probs, double lowest) {
  const bool starts = state.step == kStart, unknown = state.step == kUnknown;
  if (starts) propose_entries(state, phrases_->begin(), log_probs, lowest);
  if (!starts && !unknown) propose_entries(state, phrases_->step(state.step).node, log_probs, lowest);
  if (!starts && !unknown && !phrases_->ends_phrase(phrases_->step(state.step).node)) return;
  propose_entries(state, Phrases::kRoot, log_probs, lowest);
  // Like any word, [unk] starts with a token that begins a word, except at the start of the utterance.
  const std::int32_t first = starts ? likeliest_ : word_start_;
  if (unknown || first < 0 || first == kBlankId) return;
  const Alignment& best = state.best();
  const double cost = static_cast<double>(phrases_->unknown_cost());
  propose(kUnknown, {best.score + static_cast<double>(log_probs[first]) - cost, &state, &best, true}, false);
}

// A token can follow itself only after a blank.
void CtcPhraseSearch::propose_entries(const State& state, std::int32_t node, const float* log_probs, double lowest) {
  const std::int32_t last = state.step < 0 ? -1 : token_at(state.step);
  for (const Phrases::Step& step : phrases_->steps(node)) {
    const Alignment& alignment = step.token == last ? state.blank : state.best();
    const double score = alignment.score + static_cast<double>(log_probs[step.token]);
    if (score >= lowest) propose(phrases_->index(step), {score, &state, &alignment, true}, false);
  }
}

void CtcPhraseSearch::propose(std::int32_t step, const Transition& transition, bool in_blank) {
  std::int32_t& index = candidate_of_step_[static_cast<std::size_t>(step + 2)];
  if (index < 0) {
    index = static_cast<std::int32_t>(candidates_.size());
    candidates_.push_back({step, {}, {}});
  }
  Candidate& candidate = candidates_[static_cast<std::size_t>(index)];
  Transition& best = in_blank ? candidate.blank : candidate.token;
  if (transition.score > best.score) best = transition;
}

CtcPhraseSearch::Alignment CtcPhraseSearch::extended(const Transition& transition) {
  if (transition.alignment == nullptr) return {};
  Alignment alignment{transition.score, transition.alignment->history, transition.alignment->last};
  if (!transition.starts) {
    histories_.retain(alignment.history);
    return alignment;
  }
  alignment.last = {num_frames_, num_frames_, 0.0};
  if (transition.from->step != kStart) {
    const Alignment& before = *transition.alignment;
    alignment.history = histories_.append(before.history, {output_at(transition.from->step), before.last});
  }
  return alignment;
}

void CtcPhraseSearch::release(const State& state) {
  histories_.release(state.blank.history);
  histories_.release(state.token.history);
}

bool CtcPhraseSearch::better(const State* a, const State* b) {
  const double score_a = a->best().score, score_b = b->best().score;
  return score_a != score_b ? score_a > score_b : a->step < b->step;
}

bool CtcPhraseSearch::is_final(const State& state) const {
  if (state.step < 0) return true;
  const std::int32_t node = phrases_->step(state.step).node;
  return phrases_->ends_phrase(node) || node == phrases_->begin();  // the utterance may end in a word boundary
}

std::vector<Hypothesis> CtcPhraseSearch::hypotheses(std::int64_t num_best, bool finished) const {
  if (num_best < 1) throw std::invalid_argument("num_best must be at least 1, got " + std::to_string(num_best));
  std::vector<const State*> ranking;
  for (const State& state : states_) {
    if (!finished || is_final(state)) ranking.push_back(&state);
  }
  const std::size_t count = std::min(ranking.size(), static_cast<std::size_t>(num_best));
  std::partial_sort(ranking.begin(), ranking.begin() + static_cast<std::ptrdiff_t>(count), ranking.end(), better);
  std::vector<Hypothesis> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(hypothesis(*ranking[i]));
  return result;
}

// Omits a last word that is incomplete.
Hypothesis CtcPhraseSearch::hypothesis(const State& state) const {
  const Alignment& alignment = state.best();
  Hypothesis result;
  result.log_prob = alignment.score;
  if (state.step == kStart) return result;
  bool whole = state.step == kUnknown || phrases_->ends_word(phrases_->step(state.step).node);
  const auto add = [&](std::int32_t output, const TokenSpan& span) {
    if (whole) {
      result.tokens.push_back(output);
      span.append_to(result);
    }
    whole = whole || begins_word(phrases_->tokens()[static_cast<std::size_t>(output)]);
  };
  add(output_at(state.step), alignment.last);
  for (std::int32_t h = alignment.history; h != SharedLists<PastToken>::kEmpty; h = histories_.parent(h)) {
    add(histories_[h].output, histories_[h].span);
  }
  std::reverse(result.tokens.begin(), result.tokens.end());
  std::reverse(result.start_frames.begin(), result.start_frames.end());
  std::reverse(result.end_frames.begin(), result.end_frames.end());
  std::reverse(result.confidences.begin(), result.confidences.end());
  return result;
}

std::int64_t CtcPhraseSearch::num_trailing_blanks() const noexcept {
  const State& best = *std::min_element(states_.begin(), states_.end(), [](const State& a, const State& b) {
    return better(&a, &b);
  });
  return num_frames_ - (best.step == kStart ? utterance_start_ : best.best().last.end);
}

}  // namespace asr_stream
