// Unifies spelling. Language models are trained on books from both countries and output both "color" and "colour".
#pragma once

#include <string>

#include "text/language.h"

namespace asr_stream {

// Respells a lower-case word, with or without "'s". Unknown words are unchanged.
void respell(std::string& word, EnglishSpelling wanted);

}  // namespace asr_stream
