// The rules of a language for the text of events.
//
// A language is a folder (en/, de/) and a row of the table in language.cc; everything else in csrc/text is general.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "include/asr_stream/options.h"

namespace asr_stream {

enum class EnglishSpelling { kAmerican = ASR_SPELLING_AMERICAN, kBritish = ASR_SPELLING_BRITISH,
                             kMixed = ASR_SPELLING_MIXED };

struct CommandLanguage;

// The text shown for the words `first` to `last`.
struct ShownToken {
  std::string text;
  std::size_t first, last;
};

// Words around names, in small letters and without a full stop. Empty: a name gets a capital from the network alone.
struct NameWords {
  std::unordered_set<std::string> titles;     // "mr": a name follows
  std::unordered_set<std::string> no_names;   // words after a title that begin no name
  std::unordered_set<std::string> particles;  // "de": part of a name, in small letters

  bool may_be_name(const std::string& word) const { return !word.empty() && !no_names.count(word); }
};

struct Language {
  std::string_view code;  // ISO 639-1
  std::string_view name;  // in English, small letters

  // Inverse text normalization: spoken words in, the numbers among them in digits.
  //
  //     at nine thirty she paid twenty five dollars   ->   at 9:30 she paid $25
  //
  // The words from `first` on, in lower case, as they are shown: every word is in one token, in order. A word that is
  // not part of a number is a token as it is, whatever it holds. `first` is where a token begins; words before it are
  // context.
  //
  // Of a text that goes on and whose first `num_stable` words stay, *num_settled are the leading tokens that stay too,
  // because no rule has looked at other words. Only an address may begin with a word that is in no table: for such a
  // word it is enough that the next one is known, even if that one changes.
  std::vector<ShownToken> (*numbers)(const std::vector<std::string>& words, std::size_t first, std::size_t num_stable,
                                     std::size_t* num_settled);

  void (*spell)(std::string& word);  // gives a word of small letters the capital that it always has: "I"
  void (*respell)(std::string& word, EnglishSpelling wanted);  // a word of small letters; null: there is one spelling
  const NameWords* names;
  // Words that a comma rarely stands before, such as "that", and the probability that it has to have there.
  const std::unordered_map<std::string, float>* rare_commas;
  const CommandLanguage* commands;  // spoken ones
  bool (*is_initialism)(const std::string& word);  // of small letters, known to be written in capitals: "fbi"
  // Of small letters, obscene by the usual lists. Many are beginnings of other words ("cockpit", "title"), so a partial
  // shows them only when they are stable.
  bool (*is_obscene)(const std::string& word);
};

// Whether it is a BCP 47 code, with the language in small letters, or empty.
bool is_language(std::string_view code);

// Of a code with or without a region. nullptr: a language without a folder, whose words are shown as they are
// recognized.
const Language* language(std::string_view code);

// The code of a language for model files that do not name theirs: "en" where the tokens write nothing but A to Z and
// apostrophes, as the models trained so far do; else "".
std::string language_of_alphabet(const std::vector<std::string>& tokens);

}  // namespace asr_stream
