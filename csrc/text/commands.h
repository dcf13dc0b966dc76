// Spoken commands of dictation: marks, line breaks, capitals, and "scratch that".
//
//     hello comma how are you question mark   ->   Hello, how are you?
//
// A command is a row of a language's table or a line of the user's list. Many commands are also ordinary words ("the
// period of the war"), so these rules apply:
//
// - A command cannot follow an article or another word that needs a noun.
// - For a word such as "period", the language's rules decide whether it is a noun. After a pause, it is always a
//   command.
// - "scratch that" must stand alone: between pauses, or at the beginning or end of the utterance.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "search/words.h"

namespace asr_stream {

struct SpokenCommand {
  enum class Kind {
    kMark,      // attached to the previous word: ","
    kOpening,   // attached to the next word: "("
    kJoining,   // between two words, without a space: "-"
    kSeparate,  // a word of its own: "–"
    kBreak,     // line breaks
    kCapital,   // capitalizes the next word
    kCapitals,  // writes the next word in capitals
    kTakeBack,  // takes back the utterance so far, or else the previous utterance
  };
  std::string_view phrase;  // in lower case
  Kind kind;
  std::string text = {};
  bool is_ordinary_word = false;

  bool ends_sentence() const;
  bool changes_sentence() const;  // false for quotes and brackets, which leave it to the words around them
};

struct CommandLanguage {
  std::vector<SpokenCommand> table;
  std::unordered_set<std::string> not_after;  // words that must be followed by a noun
  // Whether the words `first` to `last`, from a row with is_ordinary_word, are used as ordinary words.
  bool (*is_ordinary)(const std::vector<std::string>& words, std::size_t first, std::size_t last);
};

struct FoundCommand {
  std::size_t first, last;  // words
  const SpokenCommand* command;
};

// The commands for one recognizer. Immutable.
class Commands {
 public:
  static constexpr double kPause = 0.22;  // seconds

  // language: may be null. list: lines such as "next item -> new line". After the arrow is a phrase of the table, a
  // text, or nothing, which removes the command. Lines that cannot be used are skipped; see `warnings`. Throws
  // std::invalid_argument if there is neither a list nor a language.
  Commands(const CommandLanguage* language, std::string_view list);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  const std::vector<std::string>& warnings() const noexcept { return warnings_; }  // each names its line

  // Finds the commands among the words, in order. For an incomplete text whose first `num_known` words will not change,
  // *num_decided is the number of words for which it is certain whether they belong to a command.
  std::vector<FoundCommand> find(const std::vector<Word>& words, std::size_t num_known, bool is_final,
                                 std::size_t* num_decided) const;

 private:
  const CommandLanguage* language_;
  std::unordered_map<std::string, SpokenCommand> rows_;
  std::unordered_set<std::string> beginnings_;  // prefixes of phrases
  std::size_t longest_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace asr_stream
