// The lattice of a prefix beam search: the hypotheses that recombination drops, and the sentences on its paths.
#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract.h"
#include "search/ctc_prefix_beam_search.h"
#include "search/words.h"

namespace asr_stream {

namespace {

constexpr std::int64_t kMaxPaths = 4000;  // maximum number of lattice paths examined; many of them have the same words

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The words of a search by spelling: the texts of the tokens, with one "▁" between words.
std::string spelled(const std::vector<std::int32_t>& tokens, const std::vector<std::string>& texts) {
  std::string result;
  for (const std::int32_t token : tokens) {
    std::string_view text = texts[static_cast<std::size_t>(token)];
    const bool is_boundary = result.empty() || ends_with(result, kWordBoundary);
    if (begins_word(text) && is_boundary) text.remove_prefix(kWordBoundary.size());
    result += text;
  }
  if (ends_with(result, kWordBoundary)) result.resize(result.size() - kWordBoundary.size());
  return result;
}

}  // namespace

// Whether two prefixes are the same words with different pronunciations.
bool CtcPrefixBeamSearch::same_words(std::int32_t a, std::int32_t b) const {
  if (!fusion_->over_phones()) return false;
  const auto skip_tokens_inside = [this](std::int32_t& prefix) {
    while (prefix != PrefixTree::kRoot && prefixes_.ended_word(prefix) == LmFusion::kNoWord) {
      prefix = prefixes_.parent(prefix);
    }
  };
  for (;;) {
    skip_tokens_inside(a);
    skip_tokens_inside(b);
    if (a == b) return true;
    if (a == PrefixTree::kRoot || b == PrefixTree::kRoot) return false;
    if (prefixes_.ended_word(a) != prefixes_.ended_word(b)) return false;
    a = prefixes_.parent(a);
    b = prefixes_.parent(b);
  }
}

// The same two prefixes may merge several times; a later merge is kept only if it costs less.
void CtcPrefixBeamSearch::keep_merge(const Candidate& candidate, const Entry& better, const float* log_probs) {
  Entry entry = candidate.token < 0 ? keep(candidate, log_probs) : extend(candidate, log_probs);
  if (entry.endings >= 0) free_endings_.push_back(std::exchange(entry.endings, -1));
  if (same_words(entry.prefix, better.prefix)) return release(entry);
  const bool ends_in_blank = entry.blank.log_prob >= entry.token.log_prob;
  histories_.release(ends_in_blank ? entry.token.history : entry.blank.history);
  Merge merge{better.prefix, entry.prefix,
              better.log_prob - entry.log_prob,
              static_cast<double>(better.lm.lm_score()) - static_cast<double>(entry.lm.lm_score()),
              static_cast<double>(better.lm.hotword_score()) - static_cast<double>(entry.lm.hotword_score()),
              entry.best_alignment(), num_frames_, -1};
  first_merges_.resize(std::max(first_merges_.size(), prefixes_.capacity()), -1);
  std::int32_t& first = first_merges_[static_cast<std::size_t>(merge.into)];
  for (std::int32_t i = first; i >= 0; i = merges_[static_cast<std::size_t>(i)].next) {
    const Merge& known = merges_[static_cast<std::size_t>(i)];
    if (known.prefix != merge.prefix) continue;
    if (known.cost() > merge.cost()) break;
    prefixes_.release(merge.prefix);
    histories_.release(merge.alignment.history);
    return;
  }
  prefixes_.retain(merge.into);
  merge.next = std::exchange(first, static_cast<std::int32_t>(merges_.size()));
  merges_.push_back(merge);
}

void CtcPrefixBeamSearch::step_back(Walk& walk) const {
  walk.prefix = prefixes_.parent(walk.prefix);
  if (walk.history == SharedLists<TokenSpan>::kEmpty) return;
  walk.span = histories_[walk.history];
  walk.history = histories_.parent(walk.history);
}

// The ends of the hypotheses, best first. A hypothesis has one end, unless it is finished and there is `fusion_`.
std::vector<CtcPrefixBeamSearch::End> CtcPrefixBeamSearch::ends(bool finished) const {
  std::vector<End> result;
  std::vector<LmFusion::Ending> endings;
  for (const Entry& entry : beam_) {
    if (fusion_ && finished) {
      fusion_->finish(entry.lm, endings);
    } else {
      endings.assign(1, {entry.lm, LmFusion::kNoWord});
    }
    for (const LmFusion::Ending& ending : endings) {
      result.push_back({ending, &entry, entry.log_prob + fusion_score(ending.path)});
    }
  }
  std::sort(result.begin(), result.end(), [](const End& a, const End& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.entry != b.entry ? a.entry < b.entry : a.ending.word < b.ending.word;  // ties: beam order
  });
  return result;
}

std::vector<Hypothesis> CtcPrefixBeamSearch::hypotheses(std::int64_t num_best, bool finished) const {
  if (num_best < 1) throw std::invalid_argument("num_best must be at least 1, got " + std::to_string(num_best));
  std::vector<Hypothesis> result;
  std::vector<const Entry*> shown;
  for (const End& end : ends(finished)) {
    if (std::find(shown.begin(), shown.end(), end.entry) != shown.end()) continue;  // it had a better last word
    shown.push_back(end.entry);
    result.push_back(hypothesis_of(end, {}, finished));
    if (static_cast<std::int64_t>(result.size()) == num_best) break;
  }
  return result;
}

// merges: those on the path, starting from its end.
Hypothesis CtcPrefixBeamSearch::hypothesis_of(const End& end, const std::vector<std::int32_t>& merges,
                                              bool finished) const {
  const Entry& entry = *end.entry;
  Hypothesis hypothesis;
  hypothesis.log_prob = entry.log_prob;
  hypothesis.lm_score = static_cast<double>(end.ending.path.lm_score());
  hypothesis.hotword_score = static_cast<double>(end.ending.path.hotword_score());
  if (fusion_ && fusion_->over_phones() && entry.prefix != PrefixTree::kRoot) {
    hypothesis.words.push_back(finished ? end.ending.word : fusion_->complete_word(entry.lm));
  }
  auto merge = merges.begin();
  for (Walk at = walk(entry.prefix, entry.best_alignment()); at.prefix != PrefixTree::kRoot; step_back(at)) {
    // The two prefixes of a merge end in the same token, at about the same time.
    while (merge != merges.end() && merges_[static_cast<std::size_t>(*merge)].into == at.prefix) {
      const Merge& taken = merges_[static_cast<std::size_t>(*merge++)];
      hypothesis.log_prob -= taken.log_prob;
      hypothesis.lm_score -= taken.lm_score;
      hypothesis.hotword_score -= taken.hotword_score;
      at = walk(taken.prefix, taken.alignment);
    }
    hypothesis.tokens.push_back(prefixes_.last_token(at.prefix));
    const std::int32_t word = prefixes_.ended_word(at.prefix);
    if (word != LmFusion::kNoWord) hypothesis.words.push_back(word);
    at.span.append_to(hypothesis);
  }
  std::reverse(hypothesis.tokens.begin(), hypothesis.tokens.end());
  std::reverse(hypothesis.words.begin(), hypothesis.words.end());
  std::reverse(hypothesis.start_frames.begin(), hypothesis.start_frames.end());
  std::reverse(hypothesis.end_frames.begin(), hypothesis.end_frames.end());
  std::reverse(hypothesis.confidences.begin(), hypothesis.confidences.end());
  return hypothesis;
}

// Enumerates the paths best first (Eppstein 1998, "Finding the k shortest paths"). The best path of a hypothesis is its
// own prefix. Every other path leaves a better path at a merge and pays the cost of that merge.
std::vector<Hypothesis> CtcPrefixBeamSearch::sentences(std::int64_t num_best) const {
  const std::vector<End> all_ends = ends(true);
  const double lowest = all_ends.front().score - kLatticeBeam;
  std::vector<Route> routes;
  std::vector<std::pair<double, std::int32_t>> open;  // a heap; ties: the route found first
  const auto worse = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second > b.second;
  };
  const auto add = [&](const Route& route) {
    if (route.score < lowest) return;
    open.emplace_back(route.score, static_cast<std::int32_t>(routes.size()));
    std::push_heap(open.begin(), open.end(), worse);
    routes.push_back(route);
  };
  for (std::size_t i = 0; i < all_ends.size(); ++i) add({all_ends[i].score, static_cast<std::int32_t>(i), -1, -1});
  std::vector<Hypothesis> result;
  std::set<std::vector<std::int32_t>> known;
  std::set<std::string> texts;
  std::vector<std::int32_t> merges, beginnings;
  for (std::int64_t left = kMaxPaths; left && !open.empty(); --left) {
    const std::int32_t index = open.front().second;
    std::pop_heap(open.begin(), open.end(), worse);
    open.pop_back();
    const Route route = routes[static_cast<std::size_t>(index)];
    merges.clear();
    for (std::int32_t r = index; r >= 0; r = routes[static_cast<std::size_t>(r)].before) {
      if (routes[static_cast<std::size_t>(r)].merge >= 0) merges.push_back(routes[static_cast<std::size_t>(r)].merge);
    }
    std::reverse(merges.begin(), merges.end());
    const End& end = all_ends[static_cast<std::size_t>(route.ending)];
    Hypothesis hypothesis = hypothesis_of(end, merges, true);
    const bool is_new = fusion_ && !fusion_->over_phones()
                            ? texts.insert(spelled(hypothesis.tokens, fusion_->tokens())).second
                            : known.insert(hypothesis.words.empty() ? hypothesis.tokens : hypothesis.words).second;
    if (is_new) {
      result.push_back(std::move(hypothesis));
      if (static_cast<std::int64_t>(result.size()) == num_best) break;
    }
    const Merge* last = route.merge >= 0 ? &merges_[static_cast<std::size_t>(route.merge)] : nullptr;
    // The path can take a merge only if the merge happened before the path left the prefix that was merged into.
    std::int64_t left_at = last ? last->frame : num_frames_;
    Walk at = last ? walk(last->prefix, last->alignment) : walk(end.entry->prefix, end.entry->best_alignment());
    for (; at.prefix != PrefixTree::kRoot; left_at = at.span.start, step_back(at)) {
      if (static_cast<std::size_t>(at.prefix) >= first_merges_.size()) continue;
      beginnings.clear();
      for (std::int32_t m = first_merges_[static_cast<std::size_t>(at.prefix)]; m >= 0;) {
        const Merge& merge = merges_[static_cast<std::size_t>(m)];
        const bool is_known = std::find(beginnings.begin(), beginnings.end(), merge.prefix) != beginnings.end();
        if (merge.frame < left_at && !is_known) {
          beginnings.push_back(merge.prefix);
          add({route.score - std::max(merge.cost(), 0.0), route.ending, index, m});
        }
        m = merge.next;
      }
    }
  }
  return result;
}

}  // namespace asr_stream
