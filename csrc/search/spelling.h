// Spells words with a model's tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace asr_stream {

// The text of a token that is part of a word but adds no text: a phone of a word whose text the first phone outputs.
inline constexpr char kInside[] = "\x02";

// The text of each token, with a space for a word boundary. tokens: UTF-8, with "▁" (U+2581) for a word boundary, as in
// SentencePiece; empty for a token without text.
std::vector<std::string> token_texts(const std::vector<std::string>& tokens);

// Spells words with the tokens of a model. Immutable.
class Spelling {
 public:
  explicit Spelling(const std::vector<std::string>& tokens);  // as for `token_texts`

  // The words of `text` separated by single spaces, with A to Z in the model's case. `what`, such as "hotword", is for
  // error messages. Throws std::invalid_argument for a text without words or a word that the tokens cannot spell.
  std::string spell(std::string_view text, const char* what) const;

  // The fewest tokens that spell these words. If tokens are letters, word boundaries are only between words.
  std::vector<std::int32_t> tokens_of(std::string_view text, const char* what) const;

 private:
  // The fewest tokens that spell `text`; none if they cannot.
  std::vector<std::int32_t> segment(const std::string& text) const;
  std::string refusal(const std::string& word, const char* what) const;

  std::unordered_map<std::string, std::int32_t> pieces_;  // text of each token, and its id
  std::unordered_set<std::string> letters_;               // characters of all pieces
  std::size_t longest_ = 0;                               // longest piece in bytes
  bool begins_words_ = false;                             // whether a piece has both a boundary and letters
};

}  // namespace asr_stream
