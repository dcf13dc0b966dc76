// A list of hotwords as users write it, one per line:
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
  std::string written;  // as in the file
  std::vector<std::string> aliases;
  float boost;  // its own, or the default

  // Whether its spelling is fixed, because it has a capital, a digit or a sign. The case of other hotwords depends on
  // the sentence.
  bool has_own_spelling() const;
};

constexpr std::size_t kMaxAliases = 16;  // of a hotword

// Throws std::invalid_argument with the line.
std::vector<HotwordLine> read_hotwords(std::string_view list, float boost);

}  // namespace asr_stream
