#include "search/words.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "search/spelling.h"

namespace asr_stream {

namespace {

// In frames: the longest gap in fluent speech; the delays of tokens after a pause, in fluent speech, before a pause.
constexpr std::int64_t kFluentFrames = 3;
constexpr std::int64_t kStartDelay = 2;
constexpr std::int64_t kFluentDelay = 2;
constexpr std::int64_t kEndDelay = 1;
// Maximum distances in frames: between the letters of a word and its phones, and between their beginnings.
constexpr std::int64_t kLettersReach = 6;
constexpr std::int64_t kBoundaryReach = 4;
constexpr double kRounding = 1e-3;  // tolerance for boosts summed in a different order

// Scales scores down: CTC treats frames as independent, so scores differ more than the true log-probabilities.
constexpr double kPosteriorScale = 0.3;
constexpr double kMaxLogOdds = 5.0;  // limit for posteriors: a word may be wrong even if all sentences agree

// A word of a hypothesis, with its frames and the confidences of its tokens.
struct WordFrames {
  std::string text;
  std::int64_t start;
  std::int64_t end;
  float least;
  double sum;
  int num_tokens;
  float posterior;
};

std::vector<WordFrames> group_words(const Hypothesis& hypothesis, const std::vector<std::string>& tokens) {
  std::vector<WordFrames> result;
  bool begins = true;
  for (std::size_t i = 0; i < hypothesis.tokens.size(); ++i) {
    const std::int32_t id = hypothesis.tokens[i];
    if (id < 0 || static_cast<std::size_t>(id) >= tokens.size()) {
      throw std::invalid_argument("token id " + std::to_string(id) + " is outside 0 to " +
                                  std::to_string(tokens.size()) + " - 1");
    }
    std::string_view piece = tokens[static_cast<std::size_t>(id)];
    if (begins_word(piece)) {
      piece.remove_prefix(kWordBoundary.size());
      begins = true;
    }
    if (piece.empty()) continue;
    if (piece == kInside) piece = {};
    const float certain = hypothesis.confidences[i];
    if (begins) result.push_back({"", hypothesis.start_frames[i], 0, certain, 0.0, 0, 0.5f});
    WordFrames& word = result.back();
    word.text += piece;
    word.end = hypothesis.end_frames[i];
    word.least = std::min(word.least, certain);
    word.sum += static_cast<double>(certain);
    ++word.num_tokens;
    begins = false;
  }
  return result;
}

// The letters of word `index`. They reach from the word boundary nearest to the word's first phone to the one nearest
// to the first phone of the next word. If no boundary is near, the middle between the phones of the two words is used.
std::string written(const std::vector<WordFrames>& words, std::size_t index, const Hypothesis& letters,
                    const std::vector<std::string>& tokens) {
  const std::vector<WordFrames> lettered = group_words(letters, tokens);
  const auto beginning = [&](std::size_t i) {
    const std::int64_t start = words[i].start;
    std::int64_t begin = start - kLettersReach;
    if (i > 0) begin = std::max(begin, (words[i - 1].end + start) / 2);
    std::int64_t reach = kBoundaryReach;
    for (const WordFrames& word : lettered) {
      const std::int64_t distance = std::abs(word.start - start);
      if (distance > reach || (i > 0 && std::abs(word.start - words[i - 1].start) <= distance)) continue;
      begin = word.start;
      reach = distance - 1;
    }
    return begin;
  };
  const std::int64_t begin = beginning(index);
  std::int64_t end = words[index].end + kLettersReach;
  if (index + 1 < words.size()) end = std::min(end, beginning(index + 1));
  std::string text;
  for (std::size_t i = 0; i < letters.tokens.size(); ++i) {
    if (letters.start_frames[i] < begin || letters.start_frames[i] >= end) continue;
    std::string_view piece = tokens[static_cast<std::size_t>(letters.tokens[i])];
    if (begins_word(piece)) piece.remove_prefix(kWordBoundary.size());
    text += piece;
  }
  return text;
}

double log_odds(float posterior) {
  const auto p = static_cast<double>(posterior);
  return p < 1.0 ? std::clamp(std::log(p / (1.0 - p)), -kMaxLogOdds, kMaxLogOdds) : kMaxLogOdds;
}

std::vector<Word> timed(std::vector<WordFrames> found, const ConfidenceMap& map, const FrameOrigin& origin) {
  std::vector<Word> result;
  std::int64_t previous_end = origin.first;
  bool follows = false;  // the previous word, without a pause
  for (std::size_t i = 0; i < found.size(); ++i) {
    WordFrames& word = found[i];
    const bool continues = i + 1 < found.size() && found[i + 1].start - word.end <= kFluentFrames;
    const std::int64_t start = follows ? previous_end : std::max(word.start - kStartDelay, previous_end);
    const std::int64_t end = std::max(word.end - (continues ? kFluentDelay : kEndDelay), start + 1);
    const auto at = [&](std::int64_t frame) { return seconds(origin.position + frame * kEncoderFrame); };
    const double evidence = map.bias + map.least * word.least + map.mean * word.sum / word.num_tokens +
                            map.posterior * log_odds(word.posterior);
    result.push_back({std::move(word.text), at(start), at(end),
                      static_cast<float>(1.0 / (1.0 + std::exp(-evidence)))});
    previous_end = end;
    follows = continues;
  }
  return result;
}

// Adds `weight` to each word of `words` that is also in `other`, in an alignment with the fewest errors.
void add_matches(const std::vector<std::int32_t>& words, const std::vector<std::int32_t>& other, float weight,
                 std::vector<float>& sums) {
  const std::size_t width = other.size() + 1;
  std::vector<std::int32_t> errors((words.size() + 1) * width);  // edit distance of the remaining words
  const auto at = [&](std::size_t i, std::size_t j) -> std::int32_t& { return errors[i * width + j]; };
  for (std::size_t i = words.size() + 1; i-- > 0;) {
    for (std::size_t j = width; j-- > 0;) {
      if (i == words.size() || j == other.size()) {
        at(i, j) = static_cast<std::int32_t>(words.size() - i + other.size() - j);
      } else {
        at(i, j) = std::min({at(i + 1, j + 1) + (words[i] != other[j]), at(i + 1, j) + 1, at(i, j + 1) + 1});
      }
    }
  }
  for (std::size_t i = 0, j = 0; i < words.size() && j < other.size();) {
    if (at(i, j) == at(i + 1, j + 1) + (words[i] != other[j])) {
      if (words[i] == other[j]) sums[i] += weight;
      ++i, ++j;
    } else if (at(i, j) == at(i + 1, j) + 1) {
      ++i;
    } else {
      ++j;
    }
  }
}

}  // namespace

std::vector<Word> words(const Hypothesis& hypothesis, const std::vector<std::string>& tokens,
                        const ConfidenceMap& map, const FrameOrigin& origin) {
  return timed(group_words(hypothesis, tokens), map, origin);
}

std::vector<Word> words(const Hypothesis& hypothesis, const LmFusion& fusion, const Hypothesis& letters,
                        const std::vector<std::string>& tokens, const Calibration& calibration,
                        const FrameOrigin& origin) {
  std::vector<WordFrames> found = group_words(hypothesis, fusion.tokens());
  if (found.size() != hypothesis.words.size()) {
    throw std::invalid_argument("the hypothesis has " + std::to_string(hypothesis.words.size()) + " words for " +
                                std::to_string(found.size()) + " in phones: it is from a different search");
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    found[i].text = fusion.text(hypothesis.words[i]);
    if (!hypothesis.word_posteriors.empty()) found[i].posterior = hypothesis.word_posteriors[i];
    if (!found[i].text.empty() || hypothesis.words[i] == LmFusion::kNoWord) continue;
    found[i].text = written(found, i, letters, tokens);
  }
  const auto is_empty = [](const WordFrames& word) { return word.text.empty(); };
  found.erase(std::remove_if(found.begin(), found.end(), is_empty), found.end());
  const bool has_posteriors = !hypothesis.word_posteriors.empty();
  return timed(std::move(found),
               has_posteriors ? calibration.confidence_with_posteriors : calibration.confidence_with_phones, origin);
}

WordIds::WordIds(const LmFusion* fusion)
    : fusion_(fusion && fusion->has_lm() ? fusion : nullptr), num_known_(fusion_ ? fusion_->num_words() : 0) {}

std::int32_t WordIds::of(std::string_view text) {
  if (fusion_) {
    const std::int32_t word = fusion_->find(text);
    if (word != fusion_->unknown_word() || fusion_->over_phones()) return word;
  }
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  const std::int32_t added = num_known_ + static_cast<std::int32_t>(others_.size());
  ids_.emplace(text, added);
  others_.emplace_back(text);
  return added;
}

std::string_view WordIds::text(std::int32_t word) const {
  return word < num_known_ ? fusion_->text(word) : others_.at(static_cast<std::size_t>(word - num_known_));
}

void set_words(Hypothesis& hypothesis, const std::vector<std::string>& tokens, WordIds& ids) {
  hypothesis.words.clear();
  for (const WordFrames& word : group_words(hypothesis, tokens)) hypothesis.words.push_back(ids.of(word.text));
}

void keep_distinct(std::vector<Hypothesis>& sentences) {
  std::set<std::vector<std::int32_t>> known{{}};
  std::vector<Hypothesis> kept;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    if (known.insert(sentences[i].words).second || i == 0) kept.push_back(std::move(sentences[i]));
  }
  sentences = std::move(kept);
}

std::size_t num_alike(const std::vector<Word>& a, const std::vector<Word>& b) {
  const std::size_t length = std::min(a.size(), b.size());
  std::size_t count = 0;
  while (count < length && a[count].text == b[count].text) ++count;
  return count;
}

std::string join(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) {
    const bool is_break = text.empty() || text.back() == '\n' || word.text.substr(0, 1) == "\n";
    if (!is_break) text += ' ';
    text += word.text;
  }
  return text;
}

void set_posteriors(std::vector<Hypothesis>& sentences, std::size_t num_scored, std::size_t count) {
  double highest = sentences.front().score(), total = 0.0, of_others = 0.0;
  for (const Hypothesis& sentence : sentences) highest = std::max(highest, sentence.score());
  const auto weight = [&](std::size_t i) { return std::exp(kPosteriorScale * (sentences[i].score() - highest)); };
  for (std::size_t i = 0; i < sentences.size(); ++i) (i < num_scored ? total : of_others) += weight(i);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    const double divisor = i < num_scored ? total : total * (total + of_others);
    sentences[i].posterior = static_cast<float>(weight(i) / divisor);
  }
  for (std::size_t i = 0; i < std::min(count, sentences.size()); ++i) {
    Hypothesis& sentence = sentences[i];
    sentence.word_posteriors.assign(sentence.words.size(), 0.0f);
    for (std::size_t j = 0; j < sentences.size(); ++j) {
      if (j >= num_scored && j != i) continue;
      add_matches(sentence.words, sentences[j].words, sentences[j].posterior, sentence.word_posteriors);
    }
  }
}

void prefer_words(std::vector<Hypothesis>& sentences, std::size_t num_scored, const std::vector<std::int32_t>& words,
                  double penalty) {
  const auto scored_end = sentences.begin() + static_cast<std::ptrdiff_t>(num_scored);
  double largest = 0.0;
  for (auto sentence = sentences.begin(); sentence != scored_end; ++sentence) {
    std::vector<std::size_t> common(words.size() + 1);  // of the first i words and those of the sentence so far
    for (const std::int32_t word : sentence->words) {
      std::size_t diagonal = 0;
      for (std::size_t i = 0; i < words.size(); ++i) {
        const std::size_t extended = words[i] == word ? diagonal + 1 : 0;
        diagonal = std::exchange(common[i + 1], std::max({common[i + 1], common[i], extended}));
      }
    }
    const double loss = penalty * static_cast<double>(words.size() - common.back());
    sentence->lm_score -= loss;
    largest = std::max(largest, loss);
  }
  for (auto other = scored_end; other != sentences.end(); ++other) other->lm_score -= largest;  // they stay below
  const auto is_better = [](const Hypothesis& a, const Hypothesis& b) { return a.score() > b.score(); };
  for (auto next = sentences.begin(); next != scored_end; ++next) {  // nearly sorted already
    std::rotate(std::upper_bound(sentences.begin(), next, *next, is_better), next, next + 1);
  }
}

std::size_t best_rescored(const std::vector<Hypothesis>& hypotheses, const std::vector<float>& decoder_scores,
                          double ctc_weight) {
  if (hypotheses.empty() || hypotheses.size() != decoder_scores.size()) {
    throw std::invalid_argument(std::to_string(hypotheses.size()) + " hypotheses with " +
                                std::to_string(decoder_scores.size()) +
                                " decoder scores: one or more are needed, and one score for each");
  }
  check_option("rescore_ctc_weight", ctc_weight);
  const auto first_pass = [](const Hypothesis& h) { return h.log_prob + h.lm_score; };
  const auto scores_less = [](const Hypothesis& a, const Hypothesis& b) { return a.score() < b.score(); };
  const auto searched = std::max_element(hypotheses.begin(), hypotheses.end(), scores_less);
  std::size_t best = 0;
  double highest = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    if (hypotheses[i].hotword_score < searched->hotword_score - kRounding) continue;
    const double score = ctc_weight * first_pass(hypotheses[i]) +
                         (1.0 - ctc_weight) * static_cast<double>(decoder_scores[i]) + hypotheses[i].hotword_score;
    if (score > highest) {
      best = i;
      highest = score;
    }
  }
  return best;
}

}  // namespace asr_stream
