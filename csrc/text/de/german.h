// German: numbers and spoken commands.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "text/language.h"

namespace asr_stream::de {

const Language& german();
const CommandLanguage& german_commands();

// See Language::numbers.
std::vector<ShownToken> format_numbers(const std::vector<std::string>& words, std::size_t first,
                                       std::size_t num_stable, std::size_t* num_settled);

// "vierundzwanzig", "neunzehnhundertneunzig", "zweitausendfünf": a cardinal below a million, written as one word.
std::optional<int> cardinal(const std::string& word);
// "dritten", "einundzwanzigste": an ordinal below a million, in any of its endings.
std::optional<int> ordinal(const std::string& word);

}  // namespace asr_stream::de
