#include "text/letter_case.h"

#include <cstddef>

namespace asr_stream {
namespace {

// Applies `change` to every letter of one or two bytes, up to `num_letters` of them.
template <typename Change>
std::string map_letters(std::string_view text, std::size_t num_letters, Change change) {
  std::string out(text);
  for (std::size_t i = 0; i < out.size() && num_letters > 0; --num_letters) {
    const auto lead = static_cast<unsigned char>(out[i]);
    if (lead < 0x80) {
      out[i] = static_cast<char>(change(lead));
      ++i;
    } else if (lead >= 0xc2 && lead < 0xe0 && i + 1 < out.size()) {
      const unsigned code = change(((lead & 0x1fu) << 6) | (static_cast<unsigned char>(out[i + 1]) & 0x3fu));
      out[i] = static_cast<char>(0xc0u | (code >> 6));
      out[i + 1] = static_cast<char>(0x80u | (code & 0x3fu));
      i += 2;
    } else {
      for (++i; i < out.size() && (static_cast<unsigned char>(out[i]) & 0xc0u) == 0x80; ++i) {
      }
    }
  }
  return out;
}

bool is_capital(unsigned code) {
  return (code >= 'A' && code <= 'Z') || (code >= 0xc0 && code <= 0xde && code != 0xd7) ||
         (code >= 0x391 && code <= 0x3a9 && code != 0x3a2) || (code >= 0x400 && code <= 0x42f);
}

unsigned lower_letter(unsigned code) {
  if (!is_capital(code)) return code;
  return code >= 0x400 && code < 0x410 ? code + 0x50 : code + 0x20;
}

unsigned upper_letter(unsigned code) {
  for (const unsigned distance : {0x20u, 0x50u}) {
    if (lower_letter(code - distance) == code) return code - distance;
  }
  return code;
}

}  // namespace

std::string to_lower(std::string_view text) { return map_letters(text, text.size(), lower_letter); }

std::string to_upper(std::string_view text) { return map_letters(text, text.size(), upper_letter); }

std::string capitalized(std::string_view word) { return map_letters(word, 1, upper_letter); }

}  // namespace asr_stream
