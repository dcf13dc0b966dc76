// Hotwords: expected words and phrases. A hotword in a text, between word boundaries, raises the text's score. An
// incomplete hotword counts with its letters so far; the text loses that again if its spelling differs.
//
// All spellings are in one automaton (Aho and Corasick 1975): the cost of a step does not depend on their number, and
// if one fails, the search continues with the longest suffix that begins another. Its symbols are bytes, and words in a
// search over phones: ~word for each. It does not depend on the tokens: the same list works for models of letters and
// of word pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "options.h"
#include "search/ngram_lm.h"

namespace asr_stream {

class Pronouncer;

struct HotwordList {
  std::string lines;  // one entry a line
  float boost = kHotwordBoost;
};

// Immutable, for any number of searches.
class Hotwords {
 public:
  // tokens: UTF-8 spelling of every token, as for `token_texts`. list: see hotword_list.h; of duplicates, the higher
  // boost counts. lm: if the search is over phones, the language model that pronounces the words.
  //
  // An alias is another pronunciation of a hotword of one word. An alias of several words is itself a hotword, written
  // as the original; so is any alias if the search is over letters or the hotword has several words.
  //
  // Lines that cannot be spelled or pronounced are skipped, see `warnings`. Throws std::invalid_argument if nothing
  // remains, and for a malformed line.
  Hotwords(std::string_view list, const std::vector<std::string>& tokens, float boost = kHotwordBoost,
           const NgramLm* lm = nullptr);

  bool in_phones() const noexcept { return in_phones_; }

  std::int32_t begin() const noexcept { return begin_; }  // at a word boundary
  std::int32_t advance(std::int32_t node, std::int32_t symbol) const noexcept;  // a space for a word boundary

  // Whether the current word can still become a word of a hotword.
  bool matches(std::int32_t node) const noexcept { return node != kRoot; }
  // The gain of an incomplete hotword: the letters of the longest one.
  float under_way(std::int32_t node) const noexcept { return at(node).under_way; }
  // The final gain of a text whose word boundary is here.
  float complete(std::int32_t node) const noexcept { return at(node).complete; }
  // Whether the word that ends here is the last one of a hotword, or one with more to come.
  bool contains_word(std::int32_t node) const noexcept {
    return complete(node) > 0.0f || advance(node, ' ') != begin_;
  }

  // For hotwords in phones: the node after the current word has turned out to be `word`.
  std::int32_t identify(std::int32_t node, std::int32_t word) const noexcept { return advance(node, ~word); }
  // And the words of hotwords that can end here.
  const std::vector<std::int32_t>& endings(std::int32_t node) const noexcept {
    return endings_[static_cast<std::size_t>(node)];
  }
  // Words of hotwords outside the vocabulary, whose numbers follow its size.
  const std::vector<std::string>& new_words() const noexcept { return new_words_; }

  // For hotwords with a fixed spelling: the recognized words, in lower case, and the hotword.
  const std::vector<std::pair<std::string, std::string>>& written_forms() const noexcept { return forms_; }
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }  // sentences that name the line

  std::size_t num_hotwords() const noexcept { return num_hotwords_; }
  float highest_boost() const noexcept { return highest_boost_; }  // of a letter, or of a phone

 private:
  using Symbols = std::vector<std::int32_t>;
  using Boosts = std::map<Symbols, float>;  // of a letter, or of a phone

  static constexpr std::int32_t kRoot = 0;

  struct Node {
    std::int32_t symbol;          // its last one
    std::int32_t longest_suffix;  // of this spelling that is the beginning of a hotword
    std::int32_t first_child;     // the children are consecutive, in ascending order of their symbols
    std::int32_t num_children;
    float letters;  // or phones
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
  std::string first_fault_;
  std::vector<std::pair<std::string, std::string>> forms_;
  std::vector<std::vector<std::int32_t>> endings_;
  std::vector<Node> nodes_;  // of spellings such as " NEW YORK", breadth first
  std::int32_t begin_ = 0;
  std::size_t num_hotwords_ = 0;
  float highest_boost_ = 0.0f;
};

}  // namespace asr_stream
