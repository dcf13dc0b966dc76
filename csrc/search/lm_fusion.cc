#include "search/lm_fusion.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "search/spelling.h"

namespace asr_stream {

namespace {

constexpr float kLmGain = 5.0f;           // approximate maximum gain of a word in its context over its unigram

// Throws std::invalid_argument if the tokens cannot spell any word of `lm`. spellings: text of each token.
void require_words(const NgramLm& lm, const std::vector<std::string>& spellings) {
  std::array<bool, 256> is_written{};
  for (const std::string& spelling : spellings) {
    for (const char byte : spelling) is_written[static_cast<std::uint8_t>(byte)] = true;
  }
  std::string_view example;
  for (std::int32_t word = 0; word < static_cast<std::int32_t>(lm.num_words()); ++word) {
    const std::string_view text = lm.word(word);
    if (text.empty() || text.front() == '<') continue;  // <s>, </s>, <unk>
    const auto known = [&](char byte) { return is_written[static_cast<std::uint8_t>(byte)]; };
    if (std::all_of(text.begin(), text.end(), known)) return;
    if (example.empty()) example = text;
  }
  if (example.empty()) return;
  throw std::invalid_argument("the recognizer's tokens can spell none of the language model's words, such as '" +
                              std::string(example) +
                              "'; train the language model on text in the case and script of the tokens");
}

}  // namespace

LmFusion::LmFusion(std::shared_ptr<const NgramLm> lm, const std::vector<std::string>& tokens,
                   const LmFusionOptions& options, std::shared_ptr<const Hotwords> hotwords,
                   const std::vector<std::string>& phones)
    : lm_(std::move(lm)),
      hotwords_(std::move(hotwords)),
      over_phones_(have_phones(lm_.get(), phones)),
      options_(options) {
  if (!lm_ && !hotwords_) throw std::invalid_argument("fusion needs a language model, hotwords, or both");
  check_option("lm_weight", options.weight);
  check_option("lm_word_bonus", options.word_bonus);
  check_option("lm_oov_penalty", options.oov_penalty);
  check_option("lm_prior_weight", options.prior_weight);
  if (over_phones_) {
    const std::string bytes = lm_->bytes_of_phones(phones);
    tokens_ = spellings_ = {""};  // blank
    for (std::size_t i = 0; i < phones.size(); ++i) {
      tokens_.insert(tokens_.end(), {std::string(kWordBoundary) + phones[i], phones[i]});
      spellings_.insert(spellings_.end(), {std::string{' ', bytes[i]}, std::string{bytes[i]}});
    }
  } else {
    tokens_ = tokens;
    spellings_ = token_texts(tokens);
    if (lm_) require_words(*lm_, spellings_);
  }
  if (lm_) {
    lexicon_ = &lm_->lexicon(over_phones_);
    look_ahead_ = lm_->look_ahead(over_phones_);
    learn_gains();
  }
  if (hotwords_) {
    if (hotwords_->in_phones() != over_phones_) {
      throw std::invalid_argument(std::string("the hotwords are ") + (over_phones_ ? "spelled" : "pronounced") +
                                  ", but the search is over " + (over_phones_ ? "phones" : "letters"));
    }
    if (lm_) {
      const auto num_hotwords = static_cast<float>(std::max<std::size_t>(hotwords_->num_hotwords(), 1));
      hotword_log_prob_ = lm_->unigram_log_prob(lm_->unknown()) - std::log(num_hotwords);
    }
  }
  bound_gains();
}

void LmFusion::learn_gains() {
  const std::vector<float>& log_probs = lm_->pair_log_probs(over_phones_);
  for (std::size_t i = 0; i < log_probs.size(); ++i) {
    letter_gains_[i / 256][i % 256] = -options_.prior_weight * log_probs[i];
  }
}

void LmFusion::bound_gains() {
  std::array<float, 256> highest{};  // of each letter after any other
  for (const auto& gains : letter_gains_) {
    for (std::size_t byte = 0; byte < gains.size(); ++byte) highest[byte] = std::max(highest[byte], gains[byte]);
  }
  highest_bonus_ = lm_ ? std::max(options_.word_bonus, 0.0f) : 0.0f;
  highest_boost_ = hotwords_ ? hotwords_->highest_boost() : 0.0f;
  for (const std::string& spelling : spellings_) {
    float gain = highest_bonus_;
    for (const char last : spelling) {
      gain += highest[static_cast<std::uint8_t>(last)] + (last == ' ' ? (lm_ ? kLmGain : 0.0f) : highest_boost_);
    }
    highest_gains_.push_back(gain);
  }
}

LmFusion::Path LmFusion::begin() const {
  Path path{};
  path.last = ' ';
  if (lm_) path.state = lm_->begin();
  if (hotwords_) path.hotword = hotwords_->begin();
  return path;
}

LmFusion::Path LmFusion::begin(const NgramLm::State& context) const {
  Path path = begin();
  path.state = context;
  path.may_begin = lm_ != nullptr;
  return path;
}

NgramLm::State LmFusion::context_after(const NgramLm::State* before,
                                       const std::vector<std::string_view>& words) const {
  NgramLm::State state = before ? *before : begin().state;
  for (const std::string_view word : words) lm_->advance(state, lm_->find(word));
  return state;
}

LmFusion::Path LmFusion::advance(const Path& path, std::int32_t token, LookAhead::Cache& cache) const {
  Path next = path;
  const std::string& spelling = spellings_[static_cast<std::size_t>(token)];
  if (spelling.empty()) return next;
  for (const char last : spelling) {
    const auto byte = static_cast<std::uint8_t>(last);
    if (byte == ' ') {
      finish_word(next);
      continue;
    }
    const bool begins = !std::exchange(next.in_word, true);
    if (hotwords_) next.hotword = hotwords_->advance(next.hotword, byte);
    if (!lm_) continue;
    next.letter_gain += letter_gains_[std::exchange(next.last, byte)][byte];
    if (next.node == Lexicon::kNone) continue;
    const std::int32_t parent = std::exchange(next.node, lexicon_->child(next.node, byte));
    if (look_ahead_ && next.node != Lexicon::kNone) {
      const std::int32_t context = next.state.contexts[0];
      next.continuations = begins
                               ? look_ahead_->begin(context, next.node, cache)
                               : look_ahead_->narrow(context, next.continuations.range, parent, next.node, cache);
    }
  }
  estimate(next);
  return next;
}

void LmFusion::estimate(Path& path) const {
  if (hotwords_) path.hotwords_pending = hotwords_->under_way(path.hotword);
  if (!lm_ || !path.in_word) return;
  const bool known = path.node != Lexicon::kNone, hot = hotwords_ && hotwords_->matches(path.hotword);
  float log_prob = lm_->unigram_log_prob(lm_->unknown());
  if (known) log_prob = known_log_prob(path.state.contexts[0], path.node, path.continuations.best_log_prob);
  if (hot) log_prob = known ? std::max(log_prob, hotword_log_prob_) : hotword_log_prob_;
  path.pending = pending(log_prob, known || hot ? path.letter_gain : -options_.oov_penalty);
}

// The score after `context` of the most likely word at `node` or below it.
float LmFusion::known_log_prob(std::int32_t context, std::int32_t node, float best_continuation) const {
  const float alone = lexicon_->best_log_prob(node);
  return look_ahead_ ? std::max(alone + lm_->backoff(context), best_continuation) : alone;
}

float LmFusion::pending(float log_prob, float gain) const {
  return options_.weight * log_prob + options_.word_bonus + gain;
}

float LmFusion::highest_score(const Path& path, std::int32_t token, LookAhead::Cache& cache) const {
  const std::string& spelling = spellings_[static_cast<std::size_t>(token)];
  if (!over_phones_ || hotwords_) return std::numeric_limits<float>::infinity();
  const auto byte = static_cast<std::uint8_t>(spelling.back());
  const std::int32_t context = path.state.contexts[0];
  const std::int32_t node = path.node == Lexicon::kNone ? Lexicon::kNone : lexicon_->child(path.node, byte);
  if (node == Lexicon::kNone) {
    return path.finished + pending(lm_->unigram_log_prob(lm_->unknown()), -options_.oov_penalty);
  }
  float best = path.continuations.best_log_prob;  // within a word, a longer prefix cannot have a better one
  if (look_ahead_ && !path.in_word) {
    best = look_ahead_->begin(context, node, cache).best_log_prob;
  }
  const float gain = path.letter_gain + letter_gains_[path.last][byte];
  return path.finished + pending(known_log_prob(context, node, best), gain);
}

bool LmFusion::is_known(std::int32_t word) const noexcept {
  return word != kNoWord && word != lm_->unknown() && static_cast<std::size_t>(word) < lm_->num_words();
}

// Finishes the word as the most likely word that it can be.
void LmFusion::finish_word(Path& path) const {
  if (!path.in_word) return;
  if (!over_phones_) {
    return finish_word(path, lm_ && path.node != Lexicon::kNone ? lexicon_->word(path.node) : kNoWord);
  }
  std::vector<Ending> found;
  endings(path, found);
  path = found.front().path;
}

float LmFusion::advance_lm(Path& path, std::int32_t word) const {
  NgramLm::State sentence = lm_->begin();
  float log_prob = lm_->advance(path.state, word);
  if (!std::exchange(path.may_begin, false)) return log_prob;
  const float of_sentence = lm_->advance(sentence, word);
  if (of_sentence > log_prob) {
    log_prob = of_sentence;
    path.state = sentence;
  }
  return log_prob;
}

// word: its id; kNoWord for any word without an id.
void LmFusion::finish_word(Path& path, std::int32_t word) const {
  path.in_word = false;
  bool hot = false;
  if (hotwords_) {
    if (over_phones_) path.hotword = hotwords_->identify(path.hotword, word);
    hot = hotwords_->matches(path.hotword) && hotwords_->contains_word(path.hotword);
    path.hotwords_finished += hotwords_->complete(path.hotword);
    path.hotword = hotwords_->advance(path.hotword, ' ');
    path.hotwords_pending = hotwords_->under_way(path.hotword);
  }
  if (!lm_) return;
  const bool known = is_known(word);
  float log_prob = advance_lm(path, known ? word : lm_->unknown());
  if (hot) log_prob = known ? std::max(log_prob, hotword_log_prob_) : hotword_log_prob_;
  path.finished += options_.weight * log_prob + options_.word_bonus;
  path.finished += known || hot ? path.letter_gain + letter_gains_[path.last][' '] : -options_.oov_penalty;
  path.pending = path.letter_gain = 0.0f;
  path.last = ' ';
  path.node = Lexicon::kRoot;
}

void LmFusion::endings(const Path& path, std::vector<Ending>& endings) const {
  endings.clear();
  const auto add = [&](std::int32_t word) {
    const auto same = [word](const Ending& ending) { return ending.word == word; };
    if (std::any_of(endings.begin(), endings.end(), same)) return;
    endings.push_back({path, word});
    finish_word(endings.back().path, word);
  };
  if (!over_phones_ || !path.in_word) {
    endings.push_back({path, kNoWord});
    finish_word(endings.back().path);
    return;
  }
  if (path.node != Lexicon::kNone) {
    const std::int32_t* words = lexicon_->words(path.node);
    for (std::size_t i = 0; i < lexicon_->num_words(path.node); ++i) add(words[i]);
  }
  if (hotwords_) {
    for (const std::int32_t word : hotwords_->endings(path.hotword)) add(word);
  }
  if (endings.empty()) add(lm_->unknown());
  if (endings.size() == 1) return;
  std::sort(endings.begin(), endings.end(), [](const Ending& a, const Ending& b) {
    const float score_a = a.path.score(), score_b = b.path.score();
    return score_a != score_b ? score_a > score_b : a.word < b.word;
  });
  if (endings.size() > kMaxAlternatives) endings.resize(kMaxAlternatives);
}

std::int32_t LmFusion::complete_word(const Path& path) const {
  if (!over_phones_ || !path.in_word) return kNoWord;
  std::vector<Ending> found;
  endings(path, found);
  return text(found.front().word).empty() ? kNoWord : found.front().word;
}

void LmFusion::finish(const Path& path, std::vector<Ending>& endings) const {
  this->endings(path, endings);
  for (auto& [last, word] : endings) {
    last.hotwords_pending = 0.0f;
    if (lm_) {
      last.finished += options_.weight * std::max(lm_->advance(last.state, lm_->end_of_sentence()), kPauseLogProb);
    }
  }
}

std::vector<float> LmFusion::log_probs(const NgramLm::State* context, const std::vector<std::int32_t>& words) const {
  Path path = context ? begin(*context) : begin();
  std::vector<float> result;
  for (const std::int32_t word : words) result.push_back(advance_lm(path, is_known(word) ? word : lm_->unknown()));
  result.push_back(std::max(lm_->advance(path.state, lm_->end_of_sentence()), kPauseLogProb));
  return result;
}

float LmFusion::sentence_end_log_prob(const Path& path) const {
  Path last = path;
  finish_word(last);
  return lm_->advance(last.state, lm_->end_of_sentence());
}

float LmFusion::prior_gain(std::int32_t before, std::int32_t token) const {
  if (!over_phones_ || !lm_) throw std::logic_error("only a search over phones has priors of phones");
  const auto byte = [this](std::int32_t of) {
    return of == 0 ? std::uint8_t{' '} : static_cast<std::uint8_t>(spellings_.at(static_cast<std::size_t>(of)).back());
  };
  return letter_gains_[byte(before)][byte(token)];
}

std::string_view LmFusion::text(std::int32_t word) const {
  if (!lm_) throw std::logic_error("without a language model there are no words");
  if (is_known(word)) return lm_->word(word);
  const std::size_t index = static_cast<std::size_t>(word) - lm_->num_words();
  const bool is_new = word >= 0 && word != lm_->unknown() && hotwords_ && index < hotwords_->new_words().size();
  return is_new ? std::string_view(hotwords_->new_words()[index]) : std::string_view();
}

std::int32_t LmFusion::num_words() const {
  return static_cast<std::int32_t>(lm_->num_words() + (hotwords_ ? hotwords_->new_words().size() : 0));
}

std::int32_t LmFusion::find(std::string_view text) const {
  const std::int32_t word = lm_->find(text);
  if (word != lm_->unknown() || !hotwords_) return word;
  const std::vector<std::string>& added = hotwords_->new_words();
  const auto found = std::find(added.begin(), added.end(), text);
  if (found == added.end()) return word;
  return static_cast<std::int32_t>(lm_->num_words()) + static_cast<std::int32_t>(found - added.begin());
}

}  // namespace asr_stream
