#include "text/language.h"

#include "text/de/german.h"
#include "text/en/english.h"

namespace asr_stream {

bool is_language(std::string_view code) {
  std::size_t length = 0;  // length of the current part
  bool is_first = true;
  for (const char c : code) {
    const bool is_small = c >= 'a' && c <= 'z';
    const bool is_other = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == '-' && length >= (is_first ? 2 : 1)) {
      is_first = false;
      length = 0;
    } else if (!(is_small || (is_other && !is_first)) || ++length > (is_first ? 3 : 8)) {
      return false;
    }
  }
  return code.empty() || length >= (is_first ? 2 : 1);
}

const Language* language(std::string_view code) {
  code = code.substr(0, code.find('-'));
  for (const Language* known : {&english(), &de::german()}) {
    if (known->code == code) return known;
  }
  return nullptr;
}

}  // namespace asr_stream
