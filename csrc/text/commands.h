// Spoken commands of dictation: marks, line breaks, capitals, and "scratch that".
//
//     hello comma how are you question mark   ->   Hello, how are you?
//
// A command is a row of a language's table, or a line of the user's list. Many are also ordinary words ("the period of
// the war"), so:
//
// - None stands behind an article or another word that a noun has to follow.
// - Of a word such as "period" the language's rules tell whether it is used as such; with a pause before it, it is not.
// - "scratch that" stands alone: between pauses, or at the beginning or end of the utterance.
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
    kMark,      // after the previous word: ","
    kOpening,   // before the word after: "("
    kJoining,   // between two words, without a space: "-"
    kSeparate,  // a word of its own: "–"
    kBreak,     // line breaks
    kCapital,   // the word after gets a capital
    kCapitals,  // or capitals throughout
    kTakeBack,  // what came before in the utterance is taken back, or else the utterance before
  };
  std::string_view phrase;  // in small letters
  Kind kind;
  std::string text = {};
  bool is_ordinary_word = false;

  bool ends_sentence() const { return kind == Kind::kBreak || (!text.empty() && ends_in_stop()); }
  bool changes_sentence() const;  // not quotes and brackets, for which the words around them decide

 private:
  bool ends_in_stop() const;
};

struct CommandLanguage {
  std::vector<SpokenCommand> table;
  std::unordered_set<std::string> not_after;  // words that a noun follows
  // Whether the words `first` to `last`, of a row that says is_ordinary_word, are used as such.
  bool (*is_ordinary)(const std::vector<std::string>& words, std::size_t first, std::size_t last);
};

struct FoundCommand {
  std::size_t first, last;  // words
  const SpokenCommand* command;
};

// The commands of one recognizer. Immutable.
class Commands {
 public:
  static constexpr std::size_t kMaxLines = 1000;
  static constexpr double kPause = 0.3;  // seconds

  // language: or null. list: "next item -> new line": a phrase, and a phrase of the table, or a text, or nothing: then
  // that phrase is no command. std::invalid_argument that names the line; also where there is neither.
  Commands(const CommandLanguage* language, std::string_view list);
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  // The commands among words, in order. Of a text that goes on and whose first `num_known` words stay,
  // *num_decided are those of which it is known whether they belong to one.
  std::vector<FoundCommand> find(const std::vector<Word>& words, std::size_t num_known, bool is_final,
                                 std::size_t* num_decided) const;

 private:
  void add(std::string phrase, SpokenCommand command);

  const CommandLanguage* language_;
  std::unordered_map<std::string, SpokenCommand> rows_;
  std::unordered_set<std::string> beginnings_;  // of phrases
  std::size_t longest_ = 0;
};

}  // namespace asr_stream
