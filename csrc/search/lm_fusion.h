// Shallow fusion of a word language model, of hotwords, or of both with a search over tokens: what they say of a
// hypothesis, while its last word is still being spelled. The lexicon says which words that can become; a word outside
// it stays possible, at a cost.
//
// A model that writes letters has learned from its transcripts how often each occurs, and the language model knows it
// once more. What is known twice is divided out once: by the share of the letters in the words of the lexicon (a
// density ratio, McDermott et al. 2019, with a unigram of letters in place of the recognizer's inner language model).
// Words outside the lexicon do without, or any letters would make a word.
//
// The search is over letters or, where model and language model know the same phones, over phones. Then several words
// may have been said where one ends (TO, TOO, TWO), and each is a hypothesis of its own, for the words around it to
// decide between; a word outside the lexicon is known by its phones only.
//
// Hotwords are words that the language model has to believe in. They share among them the probability of all unknown
// words: a word of theirs is never less likely than that, pays no penalty for being unknown, and is spelled like a known
// one. What it gains beside that is kept apart, so that no later judge can weigh it away.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contract.h"
#include "search/hotwords.h"
#include "search/ngram_lm.h"

namespace asr_stream {

// The defaults are tuned for the bundled models.
struct LmFusionOptions {
  float weight = static_cast<float>(option("lm_weight").fallback);  // of the language model's log-probabilities
  float word_bonus = static_cast<float>(option("lm_word_bonus").fallback);  // added for each word
  // Taken off for a word outside the lexicon, beside P(<unk>).
  float oov_penalty = static_cast<float>(option("lm_oov_penalty").fallback);
  float prior_weight = static_cast<float>(option("lm_prior_weight").fallback);  // of the letters' own, taken off
};

// Immutable, for any number of searches.
class LmFusion {
 public:
  static constexpr std::int32_t kNoWord = -1;
  static constexpr std::size_t kMaxAlternatives = 6;  // of words that end alike, by their scores in context

  // Where a hypothesis stands: the finished words, and the one under way.
  struct Path {
    NgramLm::State state;
    std::int32_t node;     // of the lexicon; kNone: the word under way is outside it
    std::int32_t hotword;  // node of the hotwords
    bool in_word;
    bool may_begin;  // the state is that of words before a pause, and a sentence may as well begin here
    float finished;  // score of the finished words
    float pending;   // estimate for the word under way
    float letters;   // what its letters have gained
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

  // A path whose last word is finished, and which word that is: its number, in a search over phones, or kNoWord.
  struct Ending {
    Path path;
    std::int32_t word;
  };

  // tokens: UTF-8 spelling of every token, as for `token_texts`. lm, hotwords: either may be null, not both. phones: of
  // the model, in its order; with a language model that has pronunciations the search is over these, token 1 + 2 i being
  // phone i that begins a word, token 2 + 2 i phone i inside one, and token 0 none. Throws std::invalid_argument.
  LmFusion(std::shared_ptr<const NgramLm> lm, const std::vector<std::string>& tokens, const LmFusionOptions& options,
           std::shared_ptr<const Hotwords> hotwords = nullptr, const std::vector<std::string>& phones = {});

  Path begin() const;
  // After a pause inside what may be one sentence: `context` is that of the words before it.
  Path begin(const NgramLm::State& context) const;
  // The context that `words` leave after `before`, or at the beginning of a sentence.
  NgramLm::State context_after(const NgramLm::State* before, const std::vector<std::string_view>& words) const;
  Path advance(const Path& path, std::int32_t token) const;
  // When no more words come for now: the word under way is finished, and so is the sentence, if it is not a pause.
  Ending finish(const Path& path) const;
  // log P(</s>) where the word under way ends. Needs a language model.
  float sentence_end_log_prob(const Path& path) const;

  // Whether the word before ends where `token` comes.
  bool begins_word(std::int32_t token) const { return spellings_[static_cast<std::size_t>(token)][0] == ' '; }
  // The words that the one under way can have been, best first; never none.
  void endings(const Path& path, std::vector<Ending>& endings) const;
  // The likeliest of the words that are complete here, kNoWord where none is.
  std::int32_t complete_word(const Path& path) const;

  bool has_lm() const noexcept { return lm_ != nullptr; }
  bool over_phones() const noexcept { return over_phones_; }
  // What is searched over: of phones, "▁AA", "AA" and so on.
  const std::vector<std::string>& tokens() const noexcept { return tokens_; }
  // How a word of a search over phones is written; empty: unknown.
  std::string_view text(std::int32_t word) const;
  // What a token may raise the score by: the priors of its letters, the letters of a hotword, and, about, a word that is
  // likelier in its context than alone.
  float highest_gain(std::int32_t token) const { return highest_gains_[static_cast<std::size_t>(token)]; }
  // The same from where the word before is finished.
  float highest_beginning() const noexcept { return highest_beginning_; }
  std::size_t num_tokens() const noexcept { return spellings_.size(); }

 private:
  void bound_gains();
  void spell_phones(const std::vector<std::string>& phones);
  bool is_known(std::int32_t word) const noexcept;
  float advance_lm(Path& path, std::int32_t word) const;
  void finish_word(Path& path) const;
  void finish_word(Path& path, std::int32_t word) const;
  void estimate(Path& path) const;

  std::shared_ptr<const NgramLm> lm_;
  std::shared_ptr<const Hotwords> hotwords_;
  const Lexicon* lexicon_ = nullptr;  // of lm_
  bool over_phones_ = false;
  std::vector<std::string> tokens_;
  std::vector<std::string> spellings_;  // of tokens, with a space for the border, and a byte for a phone
  LmFusionOptions options_;
  std::array<float, 256> letter_gains_{};  // of each letter or phone, and of the border
  float hotword_log_prob_ = 0.0f;  // of a word of theirs, at least
  std::vector<float> highest_gains_;  // of tokens
  float highest_beginning_ = 0.0f;
};

}  // namespace asr_stream
