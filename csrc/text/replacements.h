// Words and phrases that are shown as their user writes them: replacements, snippets, names with their own spelling.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "search/words.h"

namespace asr_stream {

// A phrase as it is spoken, in small letters, and as it is written.
using WrittenForm = std::pair<std::string, std::string>;

// Shown words, each with what was spoken for it.
struct ReplacedWord {
  Word word;
  std::string spoken;  // in small letters, a space between words; empty: it takes part in no phrase
  std::size_t base;    // bytes of the word without the marks after it
  bool is_stable;
};

// Immutable.
class Replacements {
 public:
  static constexpr std::size_t kMaxLines = 10000;
  static constexpr std::size_t kMaxWords = 16;    // of a phrase
  static constexpr std::size_t kMaxText = 10000;  // bytes of what takes its place

  // list: one a line, "my address -> 12 Main Street", where \n stands for a line break and \\ for a backslash. forms:
  // others, which the list precedes. std::invalid_argument that names the line.
  Replacements(std::string_view list, const std::vector<WrittenForm>& forms);

  // Puts the longest phrase in its place, where it is as it was spoken or as it is shown, whatever its case. A mark
  // behind it stays, and so does "'s". Words that may be the beginning of a phrase are not stable.
  void apply(std::vector<ReplacedWord>& words) const;
  bool empty() const noexcept { return texts_.empty(); }

 private:
  void add(const std::string& phrase, std::string text);

  std::unordered_map<std::string, std::string> texts_;  // by phrases
  std::unordered_set<std::string> beginnings_;          // of phrases, whole words, without the phrases themselves
  std::size_t longest_ = 0;                             // phrase, in words
};

// The texts before and after the arrow of a line of a list, such as "my address -> 12 Main Street"; `what` it is of,
// for errors: std::invalid_argument that names the line. The text has its escapes replaced, and may be empty.
std::pair<std::string, std::string> split_arrow(std::string_view line, const char* what);

}  // namespace asr_stream
