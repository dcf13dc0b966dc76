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

// A cardinal below a million, written as one word: "vierundzwanzig", "neunzehnhundertneunzig", "zweitausendfünf".
std::optional<int> cardinal(const std::string& word);
// An ordinal below a million, with any ending: "dritten", "einundzwanzigste".
std::optional<int> ordinal(const std::string& word);

}  // namespace asr_stream::de
