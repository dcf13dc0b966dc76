#include "search/phrases.h"

#include <set>
#include <stdexcept>

#include "search/spelling.h"

namespace asr_stream {

Phrases::Phrases(std::string_view list, const std::vector<std::string>& tokens, float unknown_cost)
    : tokens_(tokens), unknown_cost_(unknown_cost) {
  check_option("unknown_cost", unknown_cost);
  const Spelling spelling(tokens);
  std::set<std::string> spelled;
  for (const std::string_view line : list_lines(list)) {
    if (line != kUnknownPhrase) spelled.insert(' ' + spelling.spell(line, "phrase"));
  }
  if (spelled.empty()) {
    throw std::invalid_argument("the list of phrases has no phrase; give one or more, or no list for free speech");
  }
  tokens_.push_back("\xE2\x96\x81" + std::string(kUnknownPhrase));

  const std::vector<std::string_view> phrases(spelled.begin(), spelled.end());
  const Lexicon trie(phrases, std::vector<float>(phrases.size()).data());
  begin_ = trie.child(kRoot, ' ');
  const std::vector<std::string> texts = token_texts(tokens);
  std::vector<std::vector<std::int32_t>> by_first_byte(256);
  for (std::size_t token = 0; token < texts.size(); ++token) {
    const bool is_text = !texts[token].empty();
    const std::uint8_t first = is_text ? static_cast<std::uint8_t>(texts[token].front()) : 0;
    begins_word_.push_back(first == ' ');
    if (is_text) by_first_byte[first].push_back(static_cast<std::int32_t>(token));
  }
  begins_word_.push_back(true);  // [unk]
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(trie.num_nodes()); ++node) {
    first_step_.push_back(steps_.size());
    for (std::int32_t i = 0; i < trie.num_children(node); ++i) {
      for (const std::int32_t token : by_first_byte[trie.byte(trie.first_child(node) + i)]) {
        std::int32_t end = node;
        for (const char byte : texts[static_cast<std::size_t>(token)]) {
          if (end != Lexicon::kNone) end = trie.child(end, static_cast<std::uint8_t>(byte));
        }
        if (end != Lexicon::kNone) steps_.push_back({token, end});
      }
    }
    ends_phrase_.push_back(trie.word(node) != Lexicon::kNone);
    ends_word_.push_back(ends_phrase_.back() != 0 || (node != kRoot && trie.child(node, ' ') != Lexicon::kNone));
  }
  first_step_.push_back(steps_.size());
}

}  // namespace asr_stream
