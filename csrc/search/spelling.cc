#include "search/spelling.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "contract.h"
#include "utf8.h"

namespace asr_stream {

namespace {

constexpr std::string_view kApostrophe = "\xE2\x80\x99"; // U+2019; autocorrection replaces the ASCII apostrophe with it

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

std::vector<std::string> letters_of(std::string_view text) {
  std::vector<std::string> letters;
  for (const char byte : text) {
    if (letters.empty() || begins_letter(byte)) letters.emplace_back();
    letters.back() += byte;
  }
  return letters;
}

// Changes the case of ASCII letters only; other letters stay as the user wrote them.
std::string in_case(std::string word, char first, char last) {
  for (char& byte : word) {
    if (byte >= first && byte <= last) byte = static_cast<char>(byte ^ 0x20);
  }
  return word;
}

}  // namespace

std::vector<std::string> token_texts(const std::vector<std::string>& tokens) {
  std::vector<std::string> texts = tokens;
  for (std::string& text : texts) replace_all(text, kWordBoundary, " ");
  return texts;
}

Spelling::Spelling(const std::vector<std::string>& tokens) {
  std::int32_t id = -1;
  for (const std::string& piece : token_texts(tokens)) {
    ++id;
    if (piece.empty() || (piece.size() > 2 && piece.front() == '<' && piece.back() == '>')) continue;  // <unk>
    longest_ = std::max(longest_, piece.size());
    for (std::string& letter : letters_of(piece)) letters_.insert(std::move(letter));
    pieces_.emplace(piece, id);
    begins_words_ |= piece.size() > 1 && piece.front() == ' ';
  }
}

std::string Spelling::spell(std::string_view text, const char* what) const {
  std::string plain(text);
  replace_all(plain, kApostrophe, "'");
  std::string spelled;
  for (const std::string& word : split_words(plain)) {
    if (!spelled.empty()) spelled += ' ';
    const std::string variants[] = {word, in_case(word, 'a', 'z'), in_case(word, 'A', 'Z')};
    const auto* found = std::find_if(std::begin(variants), std::end(variants),
                                     [this](const std::string& variant) { return !segment(' ' + variant).empty(); });
    if (found == std::end(variants)) throw std::invalid_argument(refusal(word, what));
    spelled += *found;
  }
  if (spelled.empty()) throw std::invalid_argument(std::string("a ") + what + " has no words");
  return spelled;
}

std::vector<std::int32_t> Spelling::tokens_of(std::string_view text, const char* what) const {
  const std::vector<std::int32_t> tokens = segment(' ' + spell(text, what));
  return {tokens.begin() + (begins_words_ ? 0 : 1), tokens.end()};
}

std::vector<std::int32_t> Spelling::segment(const std::string& text) const {
  struct Split {
    std::size_t num_tokens = 0;  // number of tokens up to here; 0 if no token ends here
    std::size_t begin = 0;       // begin of the last token
    std::int32_t token = 0;
  };
  std::vector<Split> splits(text.size() + 1);
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (begin != 0 && splits[begin].num_tokens == 0) continue;
    const std::size_t num_tokens = splits[begin].num_tokens + 1;
    for (std::size_t end = begin + 1; end <= std::min(text.size(), begin + longest_); ++end) {
      if (splits[end].num_tokens != 0 && splits[end].num_tokens <= num_tokens) continue;
      const auto found = pieces_.find(text.substr(begin, end - begin));
      if (found != pieces_.end()) splits[end] = {num_tokens, begin, found->second};
    }
  }
  std::vector<std::int32_t> tokens(splits.back().num_tokens);
  for (std::size_t end = text.size(), i = tokens.size(); i-- > 0; end = splits[end].begin) {
    tokens[i] = splits[end].token;
  }
  return tokens;
}

std::string Spelling::refusal(const std::string& word, const char* what) const {
  std::string missing;
  for (const std::string& letter : letters_of(word)) {
    const bool known = letters_.count(letter) || letters_.count(in_case(letter, 'a', 'z')) ||
                       letters_.count(in_case(letter, 'A', 'Z'));
    if (!known && missing.find(letter) == std::string::npos) missing += (missing.empty() ? "'" : ", '") + letter + "'";
  }
  return std::string(what) + " '" + word + "' cannot be written by this model: it has no " +
         (missing.empty() ? "tokens for these letters" : missing) +
         "; write it as it is spoken, with the letters of the model (numbers in words, a space for a hyphen)";
}

}  // namespace asr_stream
