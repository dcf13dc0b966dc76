// How a model's tokens spell words, and the lists that users write: hotwords, phrases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace asr_stream {

// A token that is part of a word and writes nothing of it, as a phone whose word is written with its first phone.
inline constexpr char kInside[] = "\x01";

// The text of each token, with a space for a word boundary. tokens: UTF-8, "▁" (U+2581) for a word boundary, as in
// SentencePiece; empty for one that writes nothing.
std::vector<std::string> token_texts(const std::vector<std::string>& tokens);

// Spells words as a model writes them. Immutable.
class Spelling {
 public:
  explicit Spelling(const std::vector<std::string>& tokens);  // as for `token_texts`

  // The words of `text` separated by one space, A to Z in the model's case. `what`, such as "hotword", is for errors:
  // throws std::invalid_argument for a text without words, or a word that the tokens cannot spell.
  std::string spell(std::string_view text, const char* what) const;

  // The fewest tokens that spell those words. If tokens are letters, boundaries are only between words.
  std::vector<std::int32_t> tokens_of(std::string_view text, const char* what) const;

 private:
  // The fewest tokens that spell `text`; none if that is impossible.
  std::vector<std::int32_t> segment(const std::string& text) const;
  std::string refusal(const std::string& word, const char* what) const;

  std::unordered_map<std::string, std::int32_t> pieces_;  // what tokens write, and their ids
  std::unordered_set<std::string> letters_;               // in them
  std::size_t longest_ = 0;                               // piece, in bytes
  bool begins_words_ = false;                             // whether a piece has a boundary and letters
};

// The parts of a text, separated by white space.
std::vector<std::string> split_words(std::string_view text);

// `count` of the words from `first` on, separated by one space.
inline std::string joined(const std::vector<std::string>& words, std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = first; i < first + count; ++i) text += (i > first ? " " : "") + words[i];
  return text;
}

// The nonempty lines of a list, without surrounding white space and without a byte order mark.
std::vector<std::string_view> list_lines(std::string_view text);

// The number of letters of `text`: UTF-8 code points that are not spaces.
std::size_t num_letters(std::string_view text);

}  // namespace asr_stream
