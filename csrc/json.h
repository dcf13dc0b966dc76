// Texts and events as JSON (RFC 8259).
#pragma once

#include <string>
#include <string_view>

#include "segment.h"

namespace asr_stream {

// In quotes; bytes that are not UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

enum class KeyCase { kSnake, kCamel };  // num_stable, numStable

// An object on one line. docs/reference/events.md has its keys.
std::string to_json(const Event& event, KeyCase keys = KeyCase::kSnake);

std::string camel_case(std::string_view name);

}  // namespace asr_stream
