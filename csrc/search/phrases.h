// A grammar that is a list of phrases: only sequences of these are recognized; everything else becomes [unk].
//
// The phrases form a trie of bytes. A search moves along `Step`s: a token, and the node that its text leads to. A word
// may be spelled by any tokens that form it, so the same list works for letters and word pieces. If the model has
// phones and the language model has pronunciations, the trie consists of words, with the phones of each pronunciation
// in between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "search/lexicon.h"
#include "search/ngram_lm.h"

namespace asr_stream {

inline constexpr char kUnknownPhrase[] = "[unk]";

// Immutable and thread-safe.
class Phrases {
 public:
  struct Step {
    std::int32_t token;
    std::int32_t node;    // where it leads
    std::int32_t output;  // index in `tokens` of the text that the token outputs
  };
  struct Range {
    const Step* first;
    const Step* last;
    const Step* begin() const { return first; }
    const Step* end() const { return last; }
  };

  // tokens: UTF-8 spelling of every token, as for `token_texts`. list: one phrase per line. Duplicates are ignored, and
  // so is "[unk]", which is always included. unknown_cost: cost in nats of each token that [unk] replaces, in (0, 100];
  // a higher cost makes [unk] rarer. phones: those of the model. lm: pronounces the words. The search is over phones if
  // both are given. Phrases that the tokens cannot spell or `lm` cannot pronounce are skipped; see `warnings`. Throws
  // std::invalid_argument if no phrase remains, and for a cost out of range.
  Phrases(std::string_view list, const std::vector<std::string>& tokens, float unknown_cost = kUnknownCost,
          const std::vector<std::string>& phones = {}, const NgramLm* lm = nullptr);

  bool over_phones() const noexcept { return over_phones_; }
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }  // each names its line

  // The nodes before and after the word boundary that begins a phrase. The boundary is optional at the start of an
  // utterance. With phones, an utterance may begin with the form of a phone that otherwise occurs only inside words.
  static constexpr std::int32_t kRoot = Lexicon::kRoot;
  std::int32_t begin() const noexcept { return begin_; }

  Range steps(std::int32_t node) const noexcept {
    return {steps_.data() + first_step_[static_cast<std::size_t>(node)],
            steps_.data() + first_step_[static_cast<std::size_t>(node) + 1]};
  }
  const Step& step(std::int32_t index) const noexcept { return steps_[static_cast<std::size_t>(index)]; }
  std::int32_t index(const Step& step) const noexcept { return static_cast<std::int32_t>(&step - steps_.data()); }
  std::size_t num_steps() const noexcept { return steps_.size(); }

  bool ends_phrase(std::int32_t node) const noexcept { return ends_phrase_[static_cast<std::size_t>(node)] != 0; }
  bool ends_word(std::int32_t node) const noexcept { return ends_word_[static_cast<std::size_t>(node)] != 0; }
  bool begins_word(std::int32_t token) const noexcept { return begins_word_[static_cast<std::size_t>(token)] != 0; }

  // Spellings for `words`: the model's tokens (for phones: the words), followed by [unk].
  const std::vector<std::string>& tokens() const noexcept { return tokens_; }
  std::int32_t unknown_token() const noexcept { return static_cast<std::int32_t>(tokens_.size()) - 1; }
  std::int64_t num_model_tokens() const noexcept { return static_cast<std::int64_t>(begins_word_.size()); }
  float unknown_cost() const noexcept { return unknown_cost_; }

 private:
  using Pronunciations = std::map<std::string, std::set<std::string>>;  // of words

  void spell(const std::vector<std::string_view>& phrases, const std::vector<std::string>& tokens);
  void pronounce(const std::vector<std::string_view>& phrases, const Pronunciations& pronunciations,
                 const std::vector<std::string>& phones, const NgramLm& lm);

  std::vector<std::string> tokens_, warnings_;
  bool over_phones_;
  float unknown_cost_;
  std::int32_t begin_ = 0;
  std::vector<Step> steps_;                 // sorted by node
  std::vector<std::size_t> first_step_;     // by node, followed by the end
  std::vector<char> ends_phrase_, ends_word_;  // by node
  std::vector<char> begins_word_;           // by model token
};

}  // namespace asr_stream
