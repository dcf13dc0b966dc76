#include "text/dictated.h"

#include <algorithm>
#include <utility>

#include "text/letter_case.h"

namespace asr_stream {

using Kind = SpokenCommand::Kind;

namespace {

constexpr std::string_view kMarks = ",.?!;:";

bool is_mark(char byte) { return kMarks.find(byte) != std::string_view::npos; }

// The length of the word without the marks after it; its own period (p.m.) is kept.
std::size_t base_of(const std::string& text, const std::string& own) {
  std::size_t base = text.size();
  while (base > 1 && is_mark(text[base - 1])) --base;
  return std::min(text.size(), base + (!own.empty() && own.back() == '.' ? 1 : 0));
}

// Replaces an existing mark, so that there are never two.
void append_mark(ReplacedWord& word, const std::string& mark) {
  std::string& text = word.word.text;
  if (!mark.empty() && is_mark(mark.front())) {
    while (text.size() > word.base && is_mark(text.back())) text.pop_back();
    if (!text.empty() && text.back() == mark.front()) return;  // p.m.
  }
  text += mark;
}

}  // namespace

const SpokenCommand* TokensWithCommands::command(std::size_t token) const {
  const auto at = std::find_if(found.begin(), found.end(),
                               [&](const FoundCommand& each) { return each.first == tokens[token].first; });
  return at == found.end() ? nullptr : at->command;
}

const SpokenCommand* TokensWithCommands::change(std::size_t token) const {
  const SpokenCommand* last = nullptr;
  for (; token < tokens.size() && is_command(token); ++token) {
    const SpokenCommand* here = command(token);
    if (here && here->changes_sentence()) last = here;
  }
  return last;
}

const SpokenCommand* TokensWithCommands::last_change() const {
  for (std::size_t i = tokens.size(); i > 0 && is_command(i - 1); --i) {
    const SpokenCommand* here = command(i - 1);
    if (here && here->changes_sentence()) return here;
  }
  return nullptr;
}

std::vector<ReplacedWord> put_together(const TokensWithCommands& given, const std::vector<std::string>& texts,
                                       std::size_t num_shown) {
  std::vector<ReplacedWord> result;
  std::string opening;                      // text before the next word
  bool is_joined = false;                   // whether the next word is joined to the previous one
  const SpokenCommand* capital = nullptr;  // capitals for the next word
  for (std::size_t i = 0; i < given.tokens.size(); ++i) {
    const ShownToken& token = given.tokens[i];
    Word word{texts[i], given.words[token.first].start_s, given.words[token.last].end_s,
              given.words[token.first].confidence};
    std::string spoken;
    for (std::size_t k = token.first; k <= token.last; ++k) {
      word.confidence = std::min(word.confidence, given.words[k].confidence);
      spoken += (k > token.first ? " " : "") + to_lower(given.words[k].text);
    }
    const bool is_stable = i < num_shown;
    const SpokenCommand* command = given.is_command(i) ? given.command(i) : nullptr;
    if (command && command->kind == Kind::kOpening) opening += command->text;
    if (command && (command->kind == Kind::kCapital || command->kind == Kind::kCapitals)) capital = command;
    if (given.is_command(i) && (!command || command->kind == Kind::kOpening || command == capital)) {
      if (!command && !result.empty() && opening.empty() && !capital) result.back().is_stable &= is_stable;
      continue;
    }
    const bool attaches = command ? command->kind != Kind::kSeparate : is_joined;
    is_joined = command && command->kind == Kind::kJoining;
    if (command) {
      word.text = command->text;
      spoken.clear();
    } else {
      if (capital) word.text = capital->kind == Kind::kCapital ? capitalized(word.text) : to_upper(word.text);
      if (!token.text.empty() && token.text.front() == '*') spoken.clear();  // masked
      capital = nullptr;
    }
    std::size_t base = command ? word.text.size() : base_of(word.text, token.text);
    if (attaches && !result.empty()) {
      ReplacedWord& before = result.back();
      if (command) {
        append_mark(before, word.text);
      } else {
        base += before.word.text.size() + opening.size();
        before.word.text += std::exchange(opening, "") + word.text;
      }
      if (is_joined || !command) {
        before.base = command ? before.word.text.size() : base;
        before.spoken.clear();
      }
      before.word.end_s = word.end_s;
      before.word.confidence = std::min(before.word.confidence, word.confidence);
      before.is_stable &= is_stable;
      continue;
    }
    base += opening.size();
    word.text = std::exchange(opening, "") + word.text;
    result.push_back({std::move(word), std::move(spoken), base, is_stable});
  }
  if (!opening.empty()) {
    if (is_joined && !result.empty()) result.back().is_stable = false;  // the next word will join it
    const Word& last = given.words[given.tokens.back().last];
    result.push_back({{opening, last.start_s, last.end_s, last.confidence}, "", opening.size(), false});
  }
  return result;
}

}  // namespace asr_stream
