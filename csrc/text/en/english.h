// English: numbers, the word "I", titles before names.
#pragma once

#include "text/language.h"

namespace asr_stream {

const Language& english();

}  // namespace asr_stream
