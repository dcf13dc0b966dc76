// A list of hotwords as users write it, one hotword per line:
//
//     McDowell
//     Abbey Road : 2              nats for each letter, after a colon or a tab
//     Nguyen = win, new yen       what it sounds like
//     GPT-4 = g p t four
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "options.h"

namespace asr_stream {

struct HotwordLine {
  std::string_view line;
  std::string written;  // as the user wrote it
  std::vector<std::string> aliases;
  float boost;  // from the line, or the default

  // Whether the spelling is fixed because it has a capital letter, a digit or a punctuation character. The case of
  // other hotwords depends on the sentence.
  bool has_own_spelling() const;
};

constexpr std::size_t kMaxAliases = 16;  // per hotword

// Throws std::invalid_argument with the line in the message.
std::vector<HotwordLine> read_hotwords(std::string_view list, float boost);

}  // namespace asr_stream
