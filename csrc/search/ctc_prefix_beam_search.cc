#include "search/ctc_prefix_beam_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace asr_stream {

CtcPrefixBeamSearch::CtcPrefixBeamSearch(const CtcPrefixBeamSearchOptions& options,
                                         std::shared_ptr<const LmFusion> fusion)
    : options_(options), fusion_(std::move(fusion)) {
  check_option("beam_size", options.beam_size);
  if (options.max_tokens_per_frame < 0) {
    throw std::invalid_argument("max_tokens_per_frame must not be negative (0 stands for beam_size + 1), got " +
                                std::to_string(options.max_tokens_per_frame));
  }
  if (!(options.beam_threshold >= 0.0)) {
    throw std::invalid_argument("beam_threshold must be at least 0 (0: none), got " +
                                std::to_string(options.beam_threshold));
  }
  reset();
}

void CtcPrefixBeamSearch::reset(const NgramLm::State* context) {
  for (const Entry& entry : beam_) release(entry);
  for (const Merge& merge : merges_) {
    prefixes_.release(merge.into);
    prefixes_.release(merge.prefix);
    histories_.release(merge.alignment.history);
  }
  merges_.clear();
  first_merges_.clear();
  Entry empty;
  empty.blank.log_prob = 0.0;
  if (fusion_) empty.lm = context ? fusion_->begin(*context) : fusion_->begin();
  beam_.assign(1, empty);
  utterance_start_ = num_frames_;
}

void CtcPrefixBeamSearch::advance(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size) {
  checker_.check(log_probs, num_frames, vocab_size);
  if (fusion_ && static_cast<std::int64_t>(fusion_->num_tokens()) != vocab_size) {
    throw std::invalid_argument("vocab_size is " + std::to_string(vocab_size) +
                                ", but the language model or hotwords were given " +
                                std::to_string(fusion_->num_tokens()) + " tokens");
  }
  is_child_.resize(static_cast<std::size_t>(vocab_size), 0);
  for (std::int64_t t = 0; t < num_frames; ++t) {
    advance_frame(log_probs + t * vocab_size, static_cast<std::int32_t>(vocab_size));
  }
}

void CtcPrefixBeamSearch::advance_frame(const float* log_probs, std::int32_t vocab_size) {
  choose_tokens(log_probs, vocab_size);
  find_relatives();
  propose(log_probs);
  select();
  next_beam_.clear();
  for (const Candidate* candidate : selected_) {
    next_beam_.push_back(candidate->token < 0 ? keep(*candidate, log_probs) : extend(*candidate, log_probs));
  }
  for (const auto& [candidate, better] : merged_) {
    keep_merge(*candidate, next_beam_[static_cast<std::size_t>(better)], log_probs);
  }
  for (const Entry& entry : beam_) release(entry);
  beam_.swap(next_beam_);
  ++num_frames_;
}

void CtcPrefixBeamSearch::choose_tokens(const float* log_probs, std::int32_t vocab_size) {
  const std::int32_t wanted =
      options_.max_tokens_per_frame > 0 ? options_.max_tokens_per_frame : options_.beam_size + 1;
  const auto limit = static_cast<std::size_t>(std::min(wanted, vocab_size - 1));
  // Ties go to the lower id, so that the choice is the same on every machine.
  const auto likelier = [log_probs](std::int32_t a, std::int32_t b) {
    return log_probs[a] > log_probs[b] || (log_probs[a] == log_probs[b] && a < b);
  };
  if (limit == static_cast<std::size_t>(vocab_size - 1)) {
    if (tokens_.size() == limit) return;  // all, as before
    tokens_.resize(limit);
    std::iota(tokens_.begin(), tokens_.end(), kBlankId + 1);
    return;
  }
  // A heap with the worst of the best tokens so far in front: most tokens are rejected after one comparison.
  tokens_.clear();
  for (std::int32_t token = kBlankId + 1; token < vocab_size; ++token) {
    if (tokens_.size() < limit) {
      tokens_.push_back(token);
      std::push_heap(tokens_.begin(), tokens_.end(), likelier);
    } else if (log_probs[token] > log_probs[tokens_.front()]) {
      std::pop_heap(tokens_.begin(), tokens_.end(), likelier);
      tokens_.back() = token;
      std::push_heap(tokens_.begin(), tokens_.end(), likelier);
    }
  }
}

void CtcPrefixBeamSearch::find_relatives() {
  entries_.resize(prefixes_.capacity(), -1);
  std::int32_t root = -1;
  const auto entry_of = [&](std::int32_t prefix) -> std::int32_t& {
    return prefix == PrefixTree::kRoot ? root : entries_[static_cast<std::size_t>(prefix)];
  };
  for (std::size_t i = 0; i < beam_.size(); ++i) entry_of(beam_[i].prefix) = static_cast<std::int32_t>(i);
  parents_.assign(beam_.size(), -1);
  first_children_.assign(beam_.size(), -1);
  next_siblings_.assign(beam_.size(), -1);
  for (std::size_t i = 0; i < beam_.size(); ++i) {
    if (beam_[i].prefix == PrefixTree::kRoot) continue;
    const std::int32_t parent = entry_of(prefixes_.parent(beam_[i].prefix));
    if (parent < 0) continue;
    parents_[i] = parent;
    next_siblings_[i] = std::exchange(first_children_[static_cast<std::size_t>(parent)], static_cast<std::int32_t>(i));
  }
  for (const Entry& entry : beam_) entry_of(entry.prefix) = -1;
}

// Candidates are distinct prefixes. An entry that stays in the beam also sums the extension of its parent into it. An
// extension that is not in the beam yet has only one parent.
void CtcPrefixBeamSearch::propose(const float* log_probs) {
  const double blank_log_prob = log_probs[kBlankId];
  double best = kNever, worst = -kNever;
  candidates_.clear();
  for (std::size_t i = 0; i < beam_.size(); ++i) {
    const Entry& entry = beam_[i];
    const auto source = static_cast<std::int32_t>(i);
    const std::int32_t last = last_token(entry);
    const double blank = entry.log_prob + blank_log_prob;
    double token_sum = kNever;
    if (last >= 0) {
      token_sum = entry.log_prob_token;
      if (parents_[i] >= 0) {
        token_sum = log_add(token_sum, extension_source(beam_[static_cast<std::size_t>(parents_[i])], last));
      }
      token_sum += log_probs[last];
    }
    const double log_prob = log_add(blank, token_sum);
    candidates_.push_back({log_prob + fusion_score(entry.lm), log_prob, blank, token_sum, source, -1, entry.lm});
    best = std::max(best, candidates_.back().score);
    worst = std::min(worst, candidates_.back().score);
  }
  // Most extensions are too unlikely for the language model to score. If the beam is full, a candidate below its worst
  // entry would not be selected (except in a place that recombination frees).
  double lowest = options_.beam_threshold > 0.0 ? best - options_.beam_threshold : kNever;
  if (beam_.size() == static_cast<std::size_t>(options_.beam_size)) lowest = std::max(lowest, worst);
  rank_tokens(log_probs, lowest);
  for (std::size_t i = 0; i < beam_.size(); ++i) propose_extensions(i, log_probs, lowest);
}

// Ranks the tokens with which some entry can reach `lowest`.
void CtcPrefixBeamSearch::rank_tokens(const float* log_probs, double lowest) {
  double highest = kNever;
  for (const Entry& entry : beam_) highest = std::max(highest, entry.log_prob + fusion_score(entry.lm));
  ranked_tokens_.clear();
  for (const std::int32_t token : tokens_) {
    const double gain = fusion_ ? static_cast<double>(fusion_->highest_gain(token)) : 0.0;
    const double most = log_probs[token] + gain;
    if (!(highest + most < lowest)) ranked_tokens_.emplace_back(most, token);
  }
  std::sort(ranked_tokens_.begin(), ranked_tokens_.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
}

const std::vector<LmFusion::Ending>& CtcPrefixBeamSearch::endings(Entry& entry) {
  if (entry.endings < 0) {
    if (free_endings_.empty()) {
      free_endings_.push_back(static_cast<std::int32_t>(endings_.size()));
      endings_.emplace_back();
    }
    entry.endings = free_endings_.back();
    free_endings_.pop_back();
    fusion_->endings(entry.lm, endings_[static_cast<std::size_t>(entry.endings)]);
  }
  return endings_[static_cast<std::size_t>(entry.endings)];
}

void CtcPrefixBeamSearch::propose_extensions(std::size_t index, const float* log_probs, double lowest) {
  Entry& entry = beam_[index];
  const auto source = static_cast<std::int32_t>(index);
  const double score = entry.log_prob + fusion_score(entry.lm);
  const auto mark_children = [&](char mark) {
    for (std::int32_t j = first_children_[index]; j >= 0; j = next_siblings_[static_cast<std::size_t>(j)]) {
      is_child_[static_cast<std::size_t>(last_token(beam_[static_cast<std::size_t>(j)]))] = mark;
    }
  };
  const auto add = [&](double extended, std::int32_t token, const LmFusion::Path& path, std::int32_t word) {
    const double extended_score = extended + fusion_score(path);
    if (extended_score < lowest) return;
    candidates_.push_back({extended_score, extended, kNever, extended, source, token, path, word});
  };
  mark_children(1);
  for (const auto& [most, token] : ranked_tokens_) {
    if (score + most < lowest) break;  // so are all later tokens
    const double extended = extension_source(entry, token) + log_probs[token];
    if (std::isinf(extended)) continue;
    if (!fusion_) {
      if (!is_in_beam(index, token, LmFusion::kNoWord)) add(extended, token, {}, LmFusion::kNoWord);
    } else if (!fusion_->begins_word(token)) {
      if (score + log_probs[token] + fusion_->highest_gain(entry.lm.last, token) < lowest) continue;
      if (is_in_beam(index, token, LmFusion::kNoWord)) continue;
      if (extended + static_cast<double>(fusion_->highest_score(entry.lm, token, look_ahead_cache_)) < lowest) continue;
      add(extended, token, fusion_->advance(entry.lm, token, look_ahead_cache_), LmFusion::kNoWord);
    } else {
      const double gain = log_probs[token] + fusion_->highest_gain(' ', token);
      for (const auto& [path, word] : endings(entry)) {
        if (entry.log_prob + fusion_score(path) + gain < lowest) break;  // so are all later endings
        if (is_in_beam(index, token, word)) continue;
        if (extended + static_cast<double>(fusion_->highest_score(path, token, look_ahead_cache_)) < lowest) continue;
        add(extended, token, fusion_->advance(path, token, look_ahead_cache_), word);
      }
    }
  }
  mark_children(0);
}

// Whether the extension is already an entry, which then sums it. The children of `parent` must be marked.
bool CtcPrefixBeamSearch::is_in_beam(std::size_t parent, std::int32_t token, std::int32_t word) const {
  if (is_child_[static_cast<std::size_t>(token)] == 0) return false;
  for (std::int32_t j = first_children_[parent]; j >= 0; j = next_siblings_[static_cast<std::size_t>(j)]) {
    const std::int32_t prefix = beam_[static_cast<std::size_t>(j)].prefix;
    if (prefixes_.last_token(prefix) == token && prefixes_.ended_word(prefix) == word) return true;
  }
  return false;
}

void CtcPrefixBeamSearch::select() {
  double best = kNever;
  for (const Candidate& candidate : candidates_) best = std::max(best, candidate.score);
  const double lowest = options_.beam_threshold > 0.0 ? best - options_.beam_threshold : kNever;
  ranking_.clear();
  for (const Candidate& candidate : candidates_) {
    if (candidate.score < lowest || std::isinf(candidate.log_prob)) continue;
    ranking_.emplace_back(candidate.score, &candidate);
  }
  const auto better = [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first > b.first;
    const Candidate &first = *a.second, &second = *b.second;
    if (first.source != second.source) return first.source < second.source;
    return first.token != second.token ? first.token < second.token : first.word < second.word;
  };
  const auto size = static_cast<std::size_t>(options_.beam_size);
  // Without a language model, nearly all hypotheses have the same future, and recombination would leave no
  // alternatives.
  const bool recombine = fusion_ && fusion_->has_lm() && options_.recombine;
  // A heap sorts only the best when there are many candidates.
  const auto worse = [&better](const auto& a, const auto& b) { return better(b, a); };
  std::make_heap(ranking_.begin(), ranking_.end(), worse);
  selected_.clear();
  merged_.clear();
  next_in_bucket_.clear();
  buckets_.assign(4 * size, -1);
  for (auto end = ranking_.end(); end != ranking_.begin() && selected_.size() < size; --end) {
    std::pop_heap(ranking_.begin(), end, worse);
    const Candidate* candidate = (end - 1)->second;
    const std::int32_t better = recombine ? better_of_same_future(*candidate) : -1;
    if (better < 0) {
      selected_.push_back(candidate);
    } else if (options_.lattice && candidate->score >= best - kLatticeBeam) {
      merged_.emplace_back(candidate, better);
    }
  }
}

// Returns the index in `selected_` of a better candidate with the same future, or -1 after adding this one to the
// table.
std::int32_t CtcPrefixBeamSearch::better_of_same_future(const Candidate& candidate) {
  std::size_t hash = static_cast<std::size_t>(candidate.lm.node) * 31 + static_cast<std::size_t>(last_token(candidate));
  for (const std::int32_t context : candidate.lm.state.contexts) {
    hash = hash * 1000003 + static_cast<std::size_t>(context);
  }
  std::int32_t& head = buckets_[(hash ^ hash >> 17) % buckets_.size()];
  for (std::int32_t i = head; i >= 0; i = next_in_bucket_[static_cast<std::size_t>(i)]) {
    const Candidate& other = *selected_[static_cast<std::size_t>(i)];
    if (last_token(candidate) == last_token(other) && candidate.lm.same_future(other.lm)) return i;
  }
  next_in_bucket_.push_back(std::exchange(head, static_cast<std::int32_t>(selected_.size())));
  return -1;
}

CtcPrefixBeamSearch::Entry CtcPrefixBeamSearch::keep(const Candidate& candidate, const float* log_probs) {
  const auto i = static_cast<std::size_t>(candidate.source);
  Entry& entry = beam_[i];
  Entry next{entry.prefix, candidate.log_prob, candidate.log_prob_blank, candidate.log_prob_token, {}, {}, entry.lm,
             std::exchange(entry.endings, -1)};
  prefixes_.retain(next.prefix);
  next.blank = entry.best_alignment();
  next.blank.log_prob += log_probs[kBlankId];
  histories_.retain(next.blank.history);
  const std::int32_t last = last_token(entry);
  if (last < 0) return next;
  const double log_prob = log_probs[last];
  const Entry* parent = parents_[i] >= 0 ? &beam_[static_cast<std::size_t>(parents_[i])] : nullptr;
  if (parent != nullptr && alignment_source(*parent, last).log_prob > entry.token.log_prob) {
    next.token = start_token(*parent, last, log_prob);
  } else {
    next.token = entry.token;
    next.token.log_prob += log_prob;
    next.token.last.log_prob += log_prob;
    next.token.last.end = num_frames_ + 1;
    histories_.retain(next.token.history);
  }
  return next;
}

CtcPrefixBeamSearch::Entry CtcPrefixBeamSearch::extend(const Candidate& candidate, const float* log_probs) {
  const Entry& entry = beam_[static_cast<std::size_t>(candidate.source)];
  Entry next{prefixes_.extend(entry.prefix, candidate.token, candidate.word),
             candidate.log_prob,
             candidate.log_prob_blank,
             candidate.log_prob_token,
             {},
             {},
             candidate.lm,
             -1};
  next.token = start_token(entry, candidate.token, log_probs[candidate.token]);
  return next;
}

CtcPrefixBeamSearch::Alignment CtcPrefixBeamSearch::start_token(const Entry& entry, std::int32_t token,
                                                                double log_prob) {
  const Alignment& source = alignment_source(entry, token);
  Alignment next{source.log_prob + log_prob, SharedLists<TokenSpan>::kEmpty,
                 {num_frames_, num_frames_ + 1, log_prob}};
  if (entry.prefix != PrefixTree::kRoot) next.history = histories_.append(source.history, source.last);
  return next;
}

void CtcPrefixBeamSearch::release(const Entry& entry) {
  prefixes_.release(entry.prefix);
  histories_.release(entry.blank.history);
  histories_.release(entry.token.history);
  if (entry.endings >= 0) free_endings_.push_back(entry.endings);
}

std::optional<double> CtcPrefixBeamSearch::sentence_end_log_prob() const {
  if (!fusion_ || !fusion_->has_lm()) return std::nullopt;
  constexpr double kMinShare = 0.02;  // relative to the best; less likely entries do not change the mean
  const double best = beam_.front().log_prob + fusion_score(beam_.front().lm);
  double total = 0.0, ends = 0.0;
  for (const Entry& entry : beam_) {
    const double share = std::exp(entry.log_prob + fusion_score(entry.lm) - best);
    if (share < kMinShare) continue;
    total += share;
    ends += share * std::exp(static_cast<double>(fusion_->sentence_end_log_prob(entry.lm)));
  }
  return std::log(ends / total);
}

std::int64_t CtcPrefixBeamSearch::num_trailing_blanks() const noexcept {
  const Entry& best = beam_.front();
  return num_frames_ - (best.prefix == PrefixTree::kRoot ? utterance_start_ : best.best_alignment().last.end);
}

}  // namespace asr_stream
