#include "search/ctc_phrase_search.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

namespace asr_stream {

namespace {

// What scores so much less than the best is dropped: more than a few letters that were not heard at all.
constexpr double kThreshold = 40.0;

}  // namespace

CtcPhraseSearch::CtcPhraseSearch(std::shared_ptr<const Phrases> phrases, std::int32_t blank_id)
    : phrases_(std::move(phrases)), checker_(blank_id) {
  if (!phrases_) throw std::invalid_argument("a phrase search needs phrases");
  next_of_.assign(phrases_->num_steps() + 2, -1);
  reset();
}

void CtcPhraseSearch::reset() {
  for (const Place& place : places_) release(place);
  Place start{kStart, {}, {}};
  start.blank.score = 0.0;
  places_.assign(1, start);
  utterance_start_ = num_frames_;
  last_heard_ = checker_.blank_id();
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
  heard_ = static_cast<std::int32_t>(std::max_element(log_probs, log_probs + vocab_size) - log_probs);
  border_ = -1;
  for (std::int32_t token = 0; token < vocab_size; ++token) {
    if (phrases_->begins_word(token) && (border_ < 0 || log_probs[token] > log_probs[border_])) border_ = token;
  }

  next_.clear();
  for (const Place& place : places_) stay(place, log_probs);
  double best = kNever;
  for (const Next& next : next_) best = std::max({best, next.blank.score, next.token.score});
  for (const Place& place : places_) leave(place, log_probs, best - kThreshold);
  for (const Next& next : next_) best = std::max({best, next.blank.score, next.token.score});

  next_places_.clear();
  for (const Next& next : next_) {
    next_of_[static_cast<std::size_t>(next.step + 2)] = -1;
    // [unk] and silence stay possible, so that there is always something to end with.
    const bool kept = next.step < 0 || std::max(next.blank.score, next.token.score) >= best - kThreshold;
    if (!kept || std::isinf(std::max(next.blank.score, next.token.score))) continue;
    Place place{next.step, follow(next.blank), {}};
    if (next.token.way != nullptr) {
      const std::int32_t token = next.step == kUnknown ? heard_ : token_at(next.step);
      place.token = follow(next.token);
      if (token != checker_.blank_id()) {  // of which [unk] has some
        place.token.last.end = num_frames_ + 1;
        place.token.last.log_prob += static_cast<double>(log_probs[token]);
      }
    }
    next_places_.push_back(place);
  }
  for (const Place& place : places_) release(place);
  places_.swap(next_places_);
  last_heard_ = heard_;
  ++num_frames_;
}

// [unk] has a way in its token alone, which goes through blanks as well.
void CtcPhraseSearch::stay(const Place& place, const float* log_probs) {
  const Way& best = place.best();
  if (place.step == kUnknown) {
    const bool another = heard_ != checker_.blank_id() && heard_ != last_heard_;
    const double cost = another ? static_cast<double>(phrases_->unknown_cost()) : 0.0;
    return arrive(kUnknown, {best.score + static_cast<double>(log_probs[heard_]) - cost, &place, &best, false}, false);
  }
  const auto blank = static_cast<double>(log_probs[checker_.blank_id()]);
  arrive(place.step, {best.score + blank, &place, &best, false}, true);
  if (place.step == kStart) return;
  const auto repeated = static_cast<double>(log_probs[token_at(place.step)]);
  arrive(place.step, {place.token.score + repeated, &place, &place.token, false}, false);
}

void CtcPhraseSearch::leave(const Place& place, const float* log_probs, double lowest) {
  const bool starts = place.step == kStart, unknown = place.step == kUnknown;
  if (starts) enter(place, phrases_->begin(), log_probs, lowest);
  if (!starts && !unknown) enter(place, phrases_->step(place.step).node, log_probs, lowest);
  if (!starts && !unknown && !phrases_->ends_phrase(phrases_->step(place.step).node)) return;
  enter(place, Phrases::kRoot, log_probs, lowest);
  // [unk] begins as any word does: with a border, but in front.
  const std::int32_t first = starts ? heard_ : border_;
  if (unknown || first < 0 || first == checker_.blank_id()) return;
  const Way& best = place.best();
  const double cost = static_cast<double>(phrases_->unknown_cost());
  arrive(kUnknown, {best.score + static_cast<double>(log_probs[first]) - cost, &place, &best, true}, false);
}

// A token can follow itself only after a blank.
void CtcPhraseSearch::enter(const Place& place, std::int32_t node, const float* log_probs, double lowest) {
  const std::int32_t last = place.step < 0 ? -1 : token_at(place.step);
  for (const Phrases::Step& step : phrases_->steps(node)) {
    const Way& way = step.token == last ? place.blank : place.best();
    const double score = way.score + static_cast<double>(log_probs[step.token]);
    if (score >= lowest) arrive(phrases_->index(step), {score, &place, &way, true}, false);
  }
}

void CtcPhraseSearch::arrive(std::int32_t step, const Arrival& arrival, bool in_blank) {
  std::int32_t& index = next_of_[static_cast<std::size_t>(step + 2)];
  if (index < 0) {
    index = static_cast<std::int32_t>(next_.size());
    next_.push_back({step, {}, {}});
  }
  Next& next = next_[static_cast<std::size_t>(index)];
  Arrival& best = in_blank ? next.blank : next.token;
  if (arrival.score > best.score) best = arrival;
}

CtcPhraseSearch::Way CtcPhraseSearch::follow(const Arrival& arrival) {
  if (arrival.way == nullptr) return {};
  Way way{arrival.score, arrival.way->history, arrival.way->last};
  if (!arrival.starts) {
    histories_.retain(way.history);
    return way;
  }
  way.last = {num_frames_, num_frames_, 0.0};
  if (arrival.from->step != kStart) {
    way.history = histories_.append(arrival.way->history, {token_at(arrival.from->step), arrival.way->last});
  }
  return way;
}

void CtcPhraseSearch::release(const Place& place) {
  histories_.release(place.blank.history);
  histories_.release(place.token.history);
}

bool CtcPhraseSearch::better(const Place* a, const Place* b) {
  const double score_a = a->best().score, score_b = b->best().score;
  return score_a != score_b ? score_a > score_b : a->step < b->step;
}

bool CtcPhraseSearch::is_final(const Place& place) const {
  if (place.step < 0) return true;
  const std::int32_t node = phrases_->step(place.step).node;
  return phrases_->ends_phrase(node) || node == phrases_->begin();  // behind the last word there may be a border
}

std::vector<Hypothesis> CtcPhraseSearch::hypotheses(std::int64_t num_best, bool finished) const {
  if (num_best < 1) throw std::invalid_argument("num_best must be at least 1, got " + std::to_string(num_best));
  std::vector<const Place*> ranking;
  for (const Place& place : places_) {
    if (!finished || is_final(place)) ranking.push_back(&place);
  }
  const std::size_t count = std::min(ranking.size(), static_cast<std::size_t>(num_best));
  std::partial_sort(ranking.begin(), ranking.begin() + static_cast<std::ptrdiff_t>(count), ranking.end(), better);
  std::vector<Hypothesis> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(hypothesis(*ranking[i]));
  return result;
}

// Of a word under way, nothing.
Hypothesis CtcPhraseSearch::hypothesis(const Place& place) const {
  const Way& way = place.best();
  Hypothesis result;
  result.log_prob = way.score;
  if (place.step == kStart) return result;
  bool whole = place.step == kUnknown || phrases_->ends_word(phrases_->step(place.step).node);
  const auto add = [&](std::int32_t token, const TokenSpan& span) {
    if (whole) {
      result.tokens.push_back(token);
      span.append_to(result);
    }
    whole = whole || phrases_->begins_word(token);
  };
  add(token_at(place.step), way.last);
  for (std::int32_t h = way.history; h != SharedLists<Spoken>::kEmpty; h = histories_.parent(h)) {
    add(histories_[h].token, histories_[h].span);
  }
  std::reverse(result.tokens.begin(), result.tokens.end());
  std::reverse(result.start_frames.begin(), result.start_frames.end());
  std::reverse(result.end_frames.begin(), result.end_frames.end());
  std::reverse(result.confidences.begin(), result.confidences.end());
  return result;
}

std::int64_t CtcPhraseSearch::num_trailing_blanks() const noexcept {
  const Place& best = *std::min_element(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
    return better(&a, &b);
  });
  return num_frames_ - (best.step == kStart ? utterance_start_ : best.best().last.end);
}

}  // namespace asr_stream
