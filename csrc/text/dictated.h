// Joins formatted tokens and the spoken commands among them into words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "search/words.h"
#include "text/commands.h"
#include "text/language.h"
#include "text/replacements.h"

namespace asr_stream {

// Placeholder for a word of a command. The other steps treat it as an unknown word.
inline constexpr std::string_view kCommandWord = "\x01";

struct TokensWithCommands {
  const std::vector<Word>& words;
  const std::vector<ShownToken>& tokens;
  const std::vector<FoundCommand>& found;

  bool is_command(std::size_t token) const { return tokens[token].text == kCommandWord; }
  // nullptr if the token is a later word of the previous command.
  const SpokenCommand* command(std::size_t token) const;
  // The effect on the sentence of the commands from a token up to the next word; nullptr if there are none.
  const SpokenCommand* change(std::size_t token) const;
  const SpokenCommand* last_change() const;  // after the last word
};

// texts: those of the tokens, with case and marks. num_shown: number of tokens that will not change. A word is stable
// if all of its tokens are.
std::vector<ReplacedWord> put_together(const TokensWithCommands& given, const std::vector<std::string>& texts,
                                       std::size_t num_shown);

}  // namespace asr_stream
