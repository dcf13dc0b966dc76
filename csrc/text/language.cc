#include "text/language.h"

#include "search/spelling.h"
#include "text/de/german.h"
#include "text/en/english.h"

namespace asr_stream {

const Language* language(std::string_view code) {
  for (const Language* known : {&english(), &de::german()}) {
    if (known->code == code) return known;
  }
  return nullptr;
}

std::string language_of_alphabet(const std::vector<std::string>& tokens) {
  for (const std::string& text : token_texts(tokens)) {
    for (const char c : text) {
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!is_letter && c != '\'' && c != ' ') return "";
    }
  }
  return "en";
}

}  // namespace asr_stream
