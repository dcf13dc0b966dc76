// UTF-8 texts: their parts, their letters, and the lists that users write (hotwords, phrases).
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace asr_stream {

// Splits a text at white space.
std::vector<std::string> split_words(std::string_view text);

// The parts of a text between separators, which may be empty; none if the text is empty.
std::vector<std::string_view> split(std::string_view text, std::string_view separator);

// Joins `count` words, starting at `first`, with spaces.
inline std::string joined(const std::vector<std::string>& words, std::size_t first, std::size_t count) {
  std::string text;
  for (std::size_t i = first; i < first + count; ++i) text += (i > first ? " " : "") + words[i];
  return text;
}

// Whether a letter of a UTF-8 text begins with this byte.
inline bool begins_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// Whether a text is valid UTF-8 (RFC 3629) without NUL, which would end a C string.
bool is_utf8(std::string_view text);

// The longest prefix of a UTF-8 text that has at most `size` bytes and ends with a whole character.
inline std::string_view utf8_prefix(std::string_view text, std::size_t size) {
  size = std::min(size, text.size());
  while (size && size < text.size() && !begins_letter(text[size])) --size;
  return text.substr(0, size);
}

// Whether a text has control characters, such as NUL, other than white space.
bool has_control_characters(std::string_view text);

// The nonempty lines of a list, without surrounding white space and without a byte order mark.
std::vector<std::string_view> list_lines(std::string_view text);

// A text of a user's for a message. Control characters become "?": a NUL would end the message.
std::string printable(std::string_view text);

// Passes each line of a list to `use`. A line for which it throws std::invalid_argument is skipped, and the message,
// which must name the line, is added to `warnings`: one odd line must not refuse a list. Lines with control characters
// are skipped, too. what: the kind of the lines, such as "hotword".
template <typename Use>
void use_lines(std::string_view list, const char* what, std::vector<std::string>& warnings, Use use) {
  for (const std::string_view line : list_lines(list)) {
    if (has_control_characters(line)) {
      warnings.push_back(std::string(what) + " line '" + printable(line) + "' has a control character; remove it");
      continue;
    }
    try {
      use(line);
    } catch (const std::invalid_argument& error) {
      warnings.push_back(error.what());
    }
  }
}

// The number of letters of `text`: UTF-8 code points that are not spaces.
std::size_t num_letters(std::string_view text);

}  // namespace asr_stream
