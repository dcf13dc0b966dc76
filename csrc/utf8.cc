#include "utf8.h"

#include <array>
#include <cstdint>

namespace asr_stream {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

bool is_control(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code == 0x7f;
}

}  // namespace

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
