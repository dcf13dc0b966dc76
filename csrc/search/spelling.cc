#include "search/spelling.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "contract.h"

namespace asr_stream {

namespace {

constexpr std::string_view kApostrophe = "\xE2\x80\x99"; // U+2019; autocorrection replaces the ASCII apostrophe with it
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code == 0x7f;
}

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

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(kWhiteSpace, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kWhiteSpace, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; !text.empty() && begin != std::string_view::npos;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    begin = end == std::string_view::npos ? end : end + separator.size();
  }
  return parts;
}

std::vector<std::string_view> list_lines(std::string_view text) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find_first_not_of(kWhiteSpace);
    if (first == std::string_view::npos) continue;
    lines.push_back(line.substr(first, line.find_last_not_of(kWhiteSpace) - first + 1));
  }
  return lines;
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char byte) {
    return is_control(byte) && kWhiteSpace.find(byte) == std::string_view::npos;
  });
}

std::string printable(std::string_view text) {
  std::string shown(text);
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return shown;
}

bool is_utf8(std::string_view text) {
  constexpr std::array<std::uint32_t, 5> kLowest{0, 1, 0x80, 0x800, 0x10000};  // by number of bytes
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t size =
        lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 0;
    if (size == 0 || size > text.size() - i) return false;
    std::uint32_t code = size == 1 ? lead : lead & (0x7fu >> size);
    for (std::size_t k = i + 1; k < i + size; ++k) {
      if (begins_letter(text[k])) return false;
      code = code << 6 | (static_cast<unsigned char>(text[k]) & 0x3fu);
    }
    if (code < kLowest[size] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    i += size;
  }
  return true;
}

std::size_t num_letters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return byte != ' ' && begins_letter(byte); }));
}

}  // namespace asr_stream
