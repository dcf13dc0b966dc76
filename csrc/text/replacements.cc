#include "text/replacements.h"

#include <algorithm>
#include <stdexcept>

#include "utf8.h"
#include "text/letter_case.h"

namespace asr_stream {

namespace {

constexpr std::string_view kArrow = "->";
constexpr std::string_view kPossessive = "'s";
constexpr std::string_view kOpening = "\"([{";

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string without(const std::string& text, std::string_view end) { return text.substr(0, text.size() - end.size()); }

[[noreturn]] void refuse(std::string_view line, const char* what, const std::string& fault) {
  const bool is_long = line.size() > 80;
  throw std::invalid_argument(std::string(what) + " line '" + std::string(utf8_prefix(line, 80)) +
                              (is_long ? "...' " : "' ") + fault);
}

}  // namespace

std::pair<std::string, std::string> split_arrow(std::string_view line, const char* what) {
  const std::size_t arrow = line.find(kArrow);
  if (arrow == std::string_view::npos) {
    refuse(line, what, "has no arrow; write what is spoken, ->, and what is to be written");
  }
  const std::vector<std::string> spoken = split_words(to_lower(line.substr(0, arrow)));
  if (spoken.empty() || spoken.size() > Replacements::kMaxWords) {
    refuse(line, what, "has " + std::to_string(spoken.size()) + " words before the arrow; it must have 1 to " +
                           std::to_string(Replacements::kMaxWords));
  }
  const std::vector<std::string_view> rest = list_lines(line.substr(arrow + kArrow.size()));
  const std::string_view given = rest.empty() ? std::string_view() : rest.front();
  if (given.size() > Replacements::kMaxText) {
    refuse(line, what, "has " + std::to_string(given.size()) + " bytes after the arrow; it may have " +
                           std::to_string(Replacements::kMaxText));
  }
  std::string text;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto byte = static_cast<unsigned char>(given[i]);
    if (byte < 0x20 && byte != '\t') refuse(line, what, "has a control character; write a line break as \\n");
    const char next = i + 1 < given.size() ? given[i + 1] : '\0';
    const bool is_escape = byte == '\\' && (next == 'n' || next == '\\');
    text += !is_escape ? given[i] : next == 'n' ? '\n' : '\\';
    i += is_escape;
  }
  return {joined(spoken, 0, spoken.size()), std::move(text)};
}

Replacements::Replacements(std::string_view list, const std::vector<WrittenForm>& forms) {
  use_lines(list, "replacement", warnings_, [this](std::string_view line) {
    auto [phrase, text] = split_arrow(line, "replacement");
    if (text.empty()) refuse(line, "replacement", "has nothing after the arrow");
    const auto known = texts_.find(phrase);
    if (known != texts_.end() && known->second != text) {
      refuse(line, "replacement", "gives '" + phrase + "' a second text; keep one of the two");
    }
    add(phrase, std::move(text));
  });
  for (const auto& [phrase, text] : forms) {
    if (!texts_.count(phrase)) add(phrase, text);
  }
}

void Replacements::add(const std::string& phrase, std::string text) {
  const std::vector<std::string> words = split_words(phrase);
  for (std::size_t n = 1; n < words.size(); ++n) beginnings_.insert(joined(words, 0, n));
  longest_ = std::max(longest_, words.size());
  texts_.insert_or_assign(phrase, std::move(text));
}

void Replacements::apply(std::vector<ReplacedWord>& words) const {
  const auto text_of = [this](const std::string& phrase) {
    const auto found = texts_.find(phrase);
    return found == texts_.end() ? nullptr : &found->second;
  };
  std::vector<ReplacedWord> result;
  bool is_open = false;  // whether a phrase may begin before this token and continue
  for (std::size_t i = 0; i < words.size();) {
    // The longest phrase from here, and the number of bytes of its last word that belong to it.
    const std::string* text = nullptr;
    std::size_t count = 0, end = 0;
    const std::size_t start = std::min(words[i].word.text.find_first_not_of(kOpening), words[i].base);
    std::string spoken, shown;
    bool may_go_on = true;
    for (std::size_t k = i; k < words.size() && may_go_on && k < i + longest_; ++k) {
      const ReplacedWord& word = words[k];
      if (word.spoken.empty()) break;
      const std::size_t from = k == i ? start : 0;
      spoken += (k > i ? " " : "") + word.spoken;
      shown += (k > i ? " " : "") + to_lower(word.word.text.substr(from, word.base - from));
      for (const std::string_view cut : {std::string_view(), kPossessive}) {
        const std::string* found = ends_with(spoken, cut) ? text_of(without(spoken, cut)) : nullptr;
        if (!found && ends_with(shown, cut)) found = text_of(without(shown, cut));
        if (!found) continue;
        text = found;
        count = k - i + 1;
        end = word.base - (ends_with(word.word.text.substr(0, word.base), cut) ? cut.size() : 0);
        break;
      }
      may_go_on = (beginnings_.count(spoken) || beginnings_.count(shown)) && word.base == word.word.text.size();
      is_open = is_open || (may_go_on && (k + 1 == words.size() || !words[k + 1].is_stable));
    }
    if (!text) {
      result.push_back(std::move(words[i]));
      result.back().is_stable = result.back().is_stable && !is_open;
      ++i;
      continue;
    }
    ReplacedWord merged = words[i];
    const Word& last = words[i + count - 1].word;
    const std::string behind = last.text.substr(end);
    const bool doubled = !behind.empty() && text->back() == behind.front() && behind.front() != '\'';
    const std::string first = merged.word.text.substr(0, start);
    merged.word.text = first + *text;
    merged.base = merged.word.text.size();
    merged.word.text += behind.substr(doubled ? 1 : 0);
    for (std::size_t k = i; k < i + count; ++k) {
      merged.word.confidence = std::min(merged.word.confidence, words[k].word.confidence);
      merged.is_stable = merged.is_stable && words[k].is_stable;
    }
    merged.word.end_s = last.end_s;
    merged.is_stable = merged.is_stable && !is_open;
    result.push_back(std::move(merged));
    i += count;
  }
  words = std::move(result);
}

WordMask::WordMask(std::string_view list) {
  use_lines(list, "mask", warnings_, [this](std::string_view line) {
    const std::vector<std::string> words = split_words(to_lower(line));
    phrases_.insert(joined(words, 0, words.size()));
    longest_ = std::max(longest_, words.size());
  });
}

void WordMask::apply(std::vector<std::string>& words) const {
  std::vector<std::string> given;
  for (const std::string& word : words) given.push_back(to_lower(word));
  for (std::size_t i = 0; i < given.size();) {
    std::size_t n = std::min(longest_, given.size() - i);
    while (n > 0 && !phrases_.count(joined(given, i, n))) --n;
    for (std::size_t k = i; k < i + n; ++k) words[k] = std::string(num_letters(given[k]), '*');
    i += std::max<std::size_t>(n, 1);
  }
}

}  // namespace asr_stream
