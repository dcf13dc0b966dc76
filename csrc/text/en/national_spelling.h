// One spelling for all words: books of both countries, which the language models have read, write "color" and "colour".
#pragma once

#include <string>

#include "text/language.h"

namespace asr_stream {

// Respells a word of small letters, with or without "'s". A word in no table stays.
void respell(std::string& word, EnglishSpelling wanted);

}  // namespace asr_stream
