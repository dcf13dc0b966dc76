// Unifies spelling: language models are trained on books of both countries and write "color" and "colour".
#pragma once

#include <string>

#include "text/language.h"

namespace asr_stream {

// Respells a lower-case word, with or without "'s". Unknown words stay.
void respell(std::string& word, EnglishSpelling wanted);

}  // namespace asr_stream
