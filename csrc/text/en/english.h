// English: numbers, spoken commands, the word "I", titles before names.
#pragma once

#include "text/language.h"

namespace asr_stream {

const Language& english();
const CommandLanguage& english_commands();

}  // namespace asr_stream
