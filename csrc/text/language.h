// The language-dependent rules for the text of events.
//
// A language is a folder (en/, de/) and a row of the table in language.cc; all other code in csrc/text is
// language-independent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "options.h"

namespace asr_stream {

struct CommandLanguage;

// The text shown for the words `first` to `last`.
struct ShownToken {
  std::string text;
  std::size_t first, last;
};

// Words around names, in lower case and without a period. If empty, only the network capitalizes names.
struct NameWords {
  std::unordered_set<std::string> titles;       // "mr": a name follows
  std::unordered_set<std::string> ranks;        // "king": in capitals only before a name
  std::unordered_set<std::string> no_names;     // words after a title that do not begin a name
  std::unordered_set<std::string> determiners;  // "the", before a rank that is no name
  std::unordered_set<std::string> particles;    // "de": part of a name, in lower case

  bool may_be_name(const std::string& word) const { return !word.empty() && !no_names.count(word); }
};

struct Language {
  std::string_view code;  // ISO 639-1
  std::string_view name;  // in English, lower case

  // Inverse text normalization: converts spoken words to text with numbers in digits.
  //
  //     at nine thirty she paid twenty five dollars   ->   at 9:30 she paid $25
  //
  // Returns the words from `first` on, in lower case, as shown. Every word belongs to one token, in order. A word that
  // is not part of a number is a token of its own. `first` must be the beginning of a token; earlier words are context.
  //
  // For an incomplete text whose first `num_stable` words will not change, *num_settled is the number of leading tokens
  // that will not change either, because no rule has looked at later words. Only an address may begin with a word that
  // is in no table: for such a word it is sufficient that a next word exists, even if it may change.
  std::vector<ShownToken> (*numbers)(const std::vector<std::string>& words, std::size_t first, std::size_t num_stable,
                                     std::size_t* num_settled);

  void (*spell)(std::string& word);  // capitalizes a lower-case word that always is, such as "I"
  void (*respell)(std::string& word, EnglishSpelling wanted);  // on a lower-case word; null if there is one spelling
  const NameWords* names;
  // Words that rarely follow a comma, such as "that", and the minimum probability of a comma before each.
  const std::unordered_map<std::string, float>* rare_commas;
  const CommandLanguage* commands;  // spoken commands
  bool (*is_initialism)(const std::string& word);  // whether a lower-case word is written in capitals: "fbi"
  // Lower-case words that common lists call obscene. Many are prefixes of other words ("cockpit", "title"), so partials
  // show them only once they are stable.
  bool (*is_obscene)(const std::string& word);
};

// Whether `code` is empty or a BCP 47 code whose language is in lower case.
bool is_language(std::string_view code);

// The language for a code with or without a region. nullptr for a language without a folder, whose words are shown as
// recognized.
const Language* language(std::string_view code);

}  // namespace asr_stream
