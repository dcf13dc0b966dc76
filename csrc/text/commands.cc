#include "text/commands.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "utf8.h"
#include "text/letter_case.h"
#include "text/replacements.h"

namespace asr_stream {

using Kind = SpokenCommand::Kind;

namespace {

bool all_of(std::string_view text, std::string_view among) {
  return !text.empty() && text.find_first_not_of(among) == std::string_view::npos;
}

// Text from the user's list: punctuation marks are attached like marks, everything else is a word.
SpokenCommand literal(std::string text) {
  const Kind kind = all_of(text, "\n")          ? Kind::kBreak
                    : all_of(text, ".,:;!?)]}%") ? Kind::kMark
                    : all_of(text, "([{#$@")    ? Kind::kOpening
                    : all_of(text, "-/_")       ? Kind::kJoining
                                                : Kind::kSeparate;
  return {"", kind, std::move(text)};
}

}  // namespace

bool SpokenCommand::ends_sentence() const {
  return kind == Kind::kBreak || (kind == Kind::kMark && (text == "." || text == "!" || text == "?"));  // not "..."
}

bool SpokenCommand::changes_sentence() const {
  if (kind == Kind::kMark) return std::string_view(".,:;!?").find(text.back()) != std::string_view::npos;
  return kind == Kind::kBreak || kind == Kind::kSeparate || kind == Kind::kJoining;
}

Commands::Commands(const CommandLanguage* language, std::string_view list) : language_(language) {
  if (!language && list_lines(list).empty()) {
    throw std::invalid_argument(
        "commands: there is no table of spoken commands for the language of this model; give a list of your own "
        "(own_commands), or leave them off");
  }
  if (language) {
    for (const SpokenCommand& row : language->table) rows_.insert_or_assign(std::string(row.phrase), row);
  }
  std::unordered_set<std::string> given;
  use_lines(list, "command", warnings_, [&](std::string_view line) {
    auto [phrase, text] = split_arrow(line, "command");
    if (!given.insert(phrase).second) {
      throw std::invalid_argument("command line '" + std::string(line) + "' gives '" + phrase +
                                  "' a second meaning; keep one of the two");
    }
    const SpokenCommand* same = nullptr;
    const std::string lower = to_lower(text);
    for (std::size_t i = 0; language && i < language->table.size(); ++i) {
      if (language->table[i].phrase == lower) same = &language->table[i];
    }
    rows_.erase(phrase);
    if (text.empty()) return;
    SpokenCommand command = same ? *same : literal(std::move(text));
    command.is_ordinary_word = false;
    rows_.insert_or_assign(phrase, std::move(command));
  });
  for (const auto& [phrase, command] : rows_) {
    const std::vector<std::string> words = split_words(phrase);
    longest_ = std::max(longest_, words.size());
    for (std::size_t n = 1; n < words.size(); ++n) beginnings_.insert(joined(words, 0, n));
  }
}

std::vector<FoundCommand> Commands::find(const std::vector<Word>& words, std::size_t num_known, bool is_final,
                                         std::size_t* num_decided) const {
  std::vector<std::string> texts;
  for (const Word& word : words) texts.push_back(to_lower(word.text));
  const std::size_t size = words.size();
  const auto pause_before = [&](std::size_t i) {  // the start and end of an utterance count as pauses
    return i == 0 || i == size || words[i].start_s - words[i - 1].end_s >= kPause;
  };
  std::vector<FoundCommand> found;
  *num_decided = num_known;
  for (std::size_t i = 0; i < size;) {
    std::size_t end = i;
    const SpokenCommand* command = nullptr;
    bool is_open = false;  // more words may change it
    std::string phrase;
    for (std::size_t k = i; k < size && k < i + longest_; ++k) {
      phrase += (k > i ? " " : "") + texts[k];
      const auto row = rows_.find(phrase);
      const bool goes_on = beginnings_.count(phrase) != 0;
      if (row != rows_.end()) {
        const bool follows = i > 0 && !(found.size() && found.back().last + 1 == i);  // an ordinary word
        const bool depends = row->second.is_ordinary_word || row->second.kind == Kind::kTakeBack ||
                             row->second.kind == Kind::kCapital || row->second.kind == Kind::kCapitals;
        bool accepted = !follows || !language_ || !language_->not_after.count(texts[i - 1]);
        if (row->second.kind == Kind::kTakeBack) {
          accepted = (!follows || pause_before(i)) && pause_before(k + 1) && (k + 1 < size || is_final);
        } else if (row->second.is_ordinary_word) {
          const bool is_apart = i > 0 && pause_before(i);
          accepted = accepted && (is_apart || !language_->is_ordinary(texts, i, k));
        }
        is_open = is_open || (depends && k + 1 >= num_known);
        if (accepted) {
          command = &row->second;
          end = k + 1;
        }
      }
      if (!goes_on) break;
      is_open = is_open || k + 1 >= num_known;
    }
    if (is_open && !is_final) *num_decided = std::min(*num_decided, i);
    if (command) found.push_back({i, end - 1, command});
    i = std::max(end, i + 1);
  }
  return found;
}

}  // namespace asr_stream
