// How the tokens of a model write words, and the lists that people write for it: hotwords, phrases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace asr_stream {

// The text of each token, with a space for a word boundary. tokens: UTF-8, "▁" (U+2581) for a word boundary, as in
// SentencePiece; empty for one that writes nothing.
std::vector<std::string> token_texts(const std::vector<std::string>& tokens);

// Puts words as a model writes them. Immutable.
class Spelling {
 public:
  explicit Spelling(const std::vector<std::string>& tokens);  // as for `token_texts`

  // The words of `text` with one space between them, A to Z in the case that the model has. `what`, such as "hotword",
  // is for errors: std::invalid_argument for a text without words, and for a word that no tokens spell.
  std::string spell(std::string_view text, const char* what) const;

  // The fewest tokens that write those words. Where tokens are letters, a boundary is only between words.
  std::vector<std::int32_t> tokens_of(std::string_view text, const char* what) const;

 private:
  // The fewest tokens that write `text`; none where nothing does.
  std::vector<std::int32_t> segment(const std::string& text) const;
  std::string refusal(const std::string& word, const char* what) const;

  std::unordered_map<std::string, std::int32_t> pieces_;  // what tokens write, and their ids
  std::unordered_set<std::string> letters_;               // in them
  std::size_t longest_ = 0;                               // piece, in bytes
  bool begins_words_ = false;                             // whether a piece has a boundary and letters
};

// The parts of a text between white space.
std::vector<std::string> split_words(std::string_view text);

// The lines of a list, without white space around them and a byte order mark in front; empty ones are left out.
std::vector<std::string_view> list_lines(std::string_view text);

// How many letters `text` has: code points of UTF-8 that are not spaces.
std::size_t num_letters(std::string_view text);

}  // namespace asr_stream
