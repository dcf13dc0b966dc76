// Case conversion of UTF-8 text for letters up to U+00FF, Greek and Cyrillic; other characters are unchanged.
#pragma once

#include <string>
#include <string_view>

namespace asr_stream {

std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
std::string capitalized(std::string_view word);  // the first letter

}  // namespace asr_stream
