// English: numbers, spoken commands, the word "I", titles before names.
#pragma once

#include <string>

#include "text/language.h"

namespace asr_stream {

const Language& english();
const CommandLanguage& english_commands();

// Respells a lower-case word, with or without "'s": language models are trained on books from Britain and America and
// output both "color" and "colour". Unknown words are unchanged.
void respell(std::string& word, EnglishSpelling wanted);

}  // namespace asr_stream
