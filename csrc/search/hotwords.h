// Hotwords: expected words and phrases. A hotword in a text, between word boundaries, raises the text's score. An
// incomplete hotword raises it by the letters so far; that gain is taken back if the text turns out differently.
//
// All spellings are in one automaton (Aho and Corasick 1975), so the cost of a step does not depend on their number. If
// a spelling fails, the search continues with the longest suffix that begins another one. Symbols are bytes; in a
// search over phones, ~word is an additional symbol for each word. The automaton does not depend on the tokens, so the
// same list works for models of letters and of word pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "options.h"
#include "search/ngram_lm.h"

namespace asr_stream {

class Pronouncer;

// A line of a list of hotwords as users write it:
//
//     McDowell
//     Abbey Road : 2              nats for each letter, after a colon or a tab
//     Nguyen = win, new yen       what it sounds like
//     GPT-4 = g p t four
struct HotwordLine {
  std::string_view line;
  std::string written;  // as the user wrote it
  std::vector<std::string> aliases;
  float boost;  // from the line, or the default

  // Whether the spelling is fixed because it has a capital letter, a digit or a punctuation character. The case of
  // other hotwords depends on the sentence.
  bool has_own_spelling() const;
};

inline constexpr std::size_t kMaxAliases = 16;       // per hotword
inline constexpr std::size_t kMaxHotwordWords = 16;  // per phrase

// Throws std::invalid_argument with the line in the message.
HotwordLine read_hotword(std::string_view line, float boost);

// Immutable and thread-safe.
class Hotwords {
 public:
  // tokens: UTF-8 spelling of every token, as for `token_texts`. list: see HotwordLine; of duplicates, the one with
  // the higher boost counts. lm: for a search over phones, the language model that pronounces the words; otherwise
  // null.
  //
  // An alias of a single-word hotword is another pronunciation of it. An alias of several words is a hotword of its
  // own, written as the original. So is every alias if the search is over letters or the hotword has several words.
  //
  // Lines that cannot be read, spelled or pronounced are skipped; see `warnings`. Throws std::invalid_argument for a
  // list without lines.
  Hotwords(std::string_view list, const std::vector<std::string>& tokens, float boost = kHotwordBoost,
           const NgramLm* lm = nullptr);

  bool in_phones() const noexcept { return in_phones_; }

  std::int32_t begin() const noexcept { return begin_; }  // at a word boundary
  std::int32_t advance(std::int32_t node, std::int32_t symbol) const noexcept;  // symbol: a space at a word boundary

  // Whether the current word can still become a word of a hotword.
  bool matches(std::int32_t node) const noexcept { return node != kRoot; }
  // The gain of an incomplete hotword, from the letters of the longest one.
  float under_way(std::int32_t node) const noexcept { return at(node).under_way; }
  // The final gain of a text with a word boundary here.
  float complete(std::int32_t node) const noexcept { return at(node).complete; }
  // Whether the word that ends here is a word of a hotword: the last, or an earlier one.
  bool contains_word(std::int32_t node) const noexcept {
    return complete(node) > 0.0f || advance(node, ' ') != begin_;
  }

  // For hotwords in phones: the node after the current word has turned out to be `word`.
  std::int32_t identify(std::int32_t node, std::int32_t word) const noexcept { return advance(node, ~word); }
  // The words of hotwords that can end here.
  const std::vector<std::int32_t>& endings(std::int32_t node) const noexcept {
    return endings_[static_cast<std::size_t>(node)];
  }
  // Words of hotwords outside the vocabulary; their ids begin at the size of the vocabulary.
  const std::vector<std::string>& new_words() const noexcept { return new_words_; }

  // For hotwords with a fixed spelling: pairs of the recognized words, in lower case, and the hotword.
  const std::vector<std::pair<std::string, std::string>>& written_forms() const noexcept { return forms_; }
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }  // each names its line

  std::size_t num_hotwords() const noexcept { return num_hotwords_; }
  float highest_boost() const noexcept { return highest_boost_; }  // per letter or phone

 private:
  using Symbols = std::vector<std::int32_t>;
  using Boosts = std::map<Symbols, float>;  // per letter or phone

  static constexpr std::int32_t kRoot = 0;

  struct Node {
    std::int32_t symbol;          // last symbol of this spelling
    std::int32_t longest_suffix;  // the longest suffix of this spelling that begins a hotword
    std::int32_t first_child;     // the children are consecutive, in ascending order of their symbols
    std::int32_t num_children;
    float length;  // letters or phones so far
    float under_way;
    float complete;
  };

  Node& at(std::int32_t node) { return nodes_[static_cast<std::size_t>(node)]; }
  const Node& at(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)]; }
  std::size_t num_units(std::int32_t symbol) const;
  std::int32_t last_child(std::int32_t node, std::int32_t symbol);
  void build(const Boosts& boosts);
  std::int32_t number_of(const NgramLm& lm, const std::string& word);
  void raise_pronounced(Boosts& boosts, Pronouncer& pronouncer, const NgramLm& lm, const std::string& text, float boost,
                        const std::string& word = {});

  bool in_phones_ = false;
  std::vector<std::string> new_words_, warnings_;
  std::unordered_map<std::string, std::int32_t> new_ids_;  // of `new_words_`
  std::vector<std::pair<std::string, std::string>> forms_;
  std::vector<std::vector<std::int32_t>> endings_;
  std::vector<Node> nodes_;  // of spellings such as " NEW YORK", breadth first
  std::int32_t begin_ = 0;
  std::size_t num_hotwords_ = 0;
  float highest_boost_ = 0.0f;
};

}  // namespace asr_stream
