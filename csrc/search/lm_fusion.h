// Shallow fusion of a word language model, hotwords, or both with a search over tokens. While the last word of a
// hypothesis is incomplete, it is scored by the words of the lexicon that it can still become. Words outside the
// lexicon remain possible at a cost.
//
// A model that outputs letters has learned from its transcripts how often letters occur and follow each other, which
// the language model scores a second time. So the log-probability of a letter bigram over the words of the lexicon is
// subtracted (a density ratio, McDermott et al. 2019, with this bigram in place of the internal language model). Words
// outside the lexicon are not corrected; otherwise any sequence of letters could become a word.
//
// The search is over phones if the acoustic model and the language model have the same phones, otherwise over letters.
// In a search over phones, several words may end at the same place (TO, TOO, TWO). Each is a separate hypothesis, and
// the context decides. A word outside the lexicon has only its phones.
//
// Hotwords share the probability of <unk>: a word of a hotword gets at least that probability and no out-of-vocabulary
// penalty. The boost of a hotword is kept separate from the language model's score, so rescoring does not scale it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "options.h"
#include "search/hotwords.h"
#include "search/ngram_lm.h"

namespace asr_stream {

// The defaults are tuned for the bundled models.
struct LmFusionOptions {
  float weight = static_cast<float>(option("lm_weight").default_value);  // of the language model's log-probabilities
  float word_bonus = static_cast<float>(option("lm_word_bonus").default_value);  // added per word
  // Subtracted for a word outside the lexicon, in addition to P(<unk>).
  float oov_penalty = static_cast<float>(option("lm_oov_penalty").default_value);
  float prior_weight = static_cast<float>(option("lm_prior_weight").default_value);  // of the letter bigram
};

// Immutable and thread-safe.
class LmFusion {
 public:
  static constexpr std::int32_t kNoWord = -1;
  static constexpr std::size_t kMaxAlternatives = 6;  // number of homophones tried, the best in context
  // Log-probability of a pause within a sentence, used in place of the sentence end if the utterance ends at a pause.
  static constexpr float kPauseLogProb = -3.5f;

  // The state of a hypothesis: its complete words, and its incomplete last word.
  struct Path {
    NgramLm::State state;
    std::int32_t node;     // of the lexicon; kNone if the current word is outside it
    LookAhead::Continuations continuations;  // of the previous word, limited to words the incomplete one can become
    std::int32_t hotword;  // node of the hotwords
    bool in_word;
    std::uint8_t last;  // last letter or phone of the current word; a space at its beginning
    bool may_begin;  // whether a sentence may begin here, although `state` is that of the words before a pause
    float finished;  // score of the finished words
    float pending;   // estimate for the current word
    float letter_gain;  // of the current word
    float hotwords_finished;
    float hotwords_pending;

    float lm_score() const { return finished + pending; }
    float hotword_score() const { return hotwords_finished + hotwords_pending; }
    float score() const { return lm_score() + hotword_score(); }
    bool same_future(const Path& other) const {
      return node == other.node && hotword == other.hotword && may_begin == other.may_begin &&
             state.contexts == other.state.contexts;
    }
  };

  // A path with its last word finished, and the id of that word (in a search over phones) or kNoWord.
  struct Ending {
    Path path;
    std::int32_t word;
  };

  // tokens: UTF-8 spelling of every token, as for `token_texts`. lm, hotwords: one of them may be null. phones: those
  // of the acoustic model, in its order. If the language model has pronunciations, the search is over phones: token 0
  // is blank, token 1 + 2 i is phone i at the beginning of a word, and token 2 + 2 i is phone i inside a word. Throws
  // std::invalid_argument.
  LmFusion(std::shared_ptr<const NgramLm> lm, const std::vector<std::string>& tokens, const LmFusionOptions& options,
           std::shared_ptr<const Hotwords> hotwords = nullptr, const std::vector<std::string>& phones = {});

  Path begin() const;
  // Begins after a pause that may be within a sentence. `context`: the state after the words before the pause.
  Path begin(const NgramLm::State& context) const;
  // The context after `words`, which follow `before` or the beginning of a sentence.
  NgramLm::State context_after(const NgramLm::State* before, const std::vector<std::string_view>& words) const;
  // cache: shared by all calls of one search.
  Path advance(const Path& path, std::int32_t token, LookAhead::Cache& cache) const;
  // An upper bound of the score after `advance`, with less work. If `token` begins a word, `path` has finished the
  // previous one.
  float highest_score(const Path& path, std::int32_t token, LookAhead::Cache& cache) const;
  // Ends an utterance: completes the last word, as each word that it can be, and the sentence, unless the end may be
  // only a pause. Gives at least one ending.
  void finish(const Path& path, std::vector<Ending>& endings) const;
  // log P of each word after those before it, as the search scores it, followed by that of the end. context: as for
  // `begin`, or null. Needs a language model.
  std::vector<float> log_probs(const NgramLm::State* context, const std::vector<std::int32_t>& words) const;
  // log P(</s>) if the current word ends here. Needs a language model.
  float sentence_end_log_prob(const Path& path) const;

  // Whether the previous word ends where `token` begins.
  bool begins_word(std::int32_t token) const { return spellings_[static_cast<std::size_t>(token)][0] == ' '; }
  // The words that the incomplete word can be, best first; at least one.
  void endings(const Path& path, std::vector<Ending>& endings) const;
  // The most likely word that is complete here, or kNoWord.
  std::int32_t complete_word(const Path& path) const;

  const LmFusionOptions& options() const noexcept { return options_; }
  const Hotwords* hotwords() const noexcept { return hotwords_.get(); }  // may be null
  bool has_lm() const noexcept { return lm_ != nullptr; }
  bool over_phones() const noexcept { return over_phones_; }
  // The texts of the tokens of the search; for phones, "▁AA", "AA" and so on.
  const std::vector<std::string>& tokens() const noexcept { return tokens_; }
  // The unigram score of a word in a search over phones.
  float unigram_log_prob(std::int32_t word) const {
    return lm_->unigram_log_prob(is_known(word) ? word : lm_->unknown());
  }
  // The spelling of a word; empty if unknown. Needs a language model.
  std::string_view text(std::int32_t word) const;
  // The word with this spelling, of the language model or a hotword; <unk> if there is none. Needs a language model.
  std::int32_t find(std::string_view text) const;
  std::int32_t unknown_word() const { return lm_->unknown(); }
  std::int32_t num_words() const;  // greater than the id of every word
  // The maximum gain of a token. It consists of the priors of its letters, the boost of a hotword's letters and,
  // approximately, the gain of a word that is more likely in its context than alone.
  float highest_gain(std::int32_t token) const { return highest_gains_[static_cast<std::size_t>(token)]; }
  // The same after the letter or phone `last`, without the gain of a word that ends.
  float highest_gain(std::uint8_t last, std::int32_t token) const {
    float gain = highest_bonus_;
    for (const char letter : spellings_[static_cast<std::size_t>(token)]) {
      if (letter == ' ') continue;
      const auto byte = static_cast<std::uint8_t>(letter);
      gain += letter_gains_[std::exchange(last, byte)][byte] + highest_boost_;
    }
    return gain;
  }
  std::size_t num_tokens() const noexcept { return spellings_.size(); }
  // In a search over phones, the prior of the phone of `token` after that of `before`; token 0 stands for a word
  // boundary. A decoding graph uses it to have the same weights as this search.
  float prior_gain(std::int32_t before, std::int32_t token) const;

 private:
  void learn_gains();
  void bound_gains();
  bool is_known(std::int32_t word) const noexcept;
  float advance_lm(Path& path, std::int32_t word) const;
  void finish_word(Path& path) const;
  void finish_word(Path& path, std::int32_t word) const;
  void estimate(Path& path) const;
  float pending(float log_prob, float gain) const;
  float known_log_prob(std::int32_t context, std::int32_t node, float best_continuation) const;

  std::shared_ptr<const NgramLm> lm_;
  std::shared_ptr<const Hotwords> hotwords_;
  const Lexicon* lexicon_ = nullptr;  // owned by lm_
  const LookAhead* look_ahead_ = nullptr;  // null if lm_ has no bigrams. If set, contexts[0] is always a word.
  bool over_phones_;
  std::vector<std::string> tokens_;
  std::vector<std::string> spellings_;  // of tokens, with a space for a word boundary, and a byte for a phone
  LmFusionOptions options_;
  // Gain of each letter, phone and word boundary after another: [before][byte].
  std::vector<std::array<float, 256>> letter_gains_ = std::vector<std::array<float, 256>>(256);
  float hotword_log_prob_ = 0.0f;  // minimum log-probability of a word of a hotword
  std::vector<float> highest_gains_;  // per token
  float highest_boost_ = 0.0f;  // maximum boost per letter or phone
  float highest_bonus_ = 0.0f;  // maximum bonus per word
};

}  // namespace asr_stream
