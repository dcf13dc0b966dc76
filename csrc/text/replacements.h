// Words and phrases shown as the user writes them: replacements, snippets, names with their own spelling; and masked
// words.
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

// A phrase as spoken, in lower case, and its written form.
using WrittenForm = std::pair<std::string, std::string>;

// A shown word, and the words spoken for it.
struct ReplacedWord {
  Word word;
  std::string spoken;  // in lower case, separated by spaces; empty if it cannot be part of a phrase
  std::size_t base;    // bytes of the word without the marks after it
  bool is_stable;
};

// Immutable.
class Replacements {
 public:
  static constexpr std::size_t kMaxWords = 16;    // per phrase
  static constexpr std::size_t kMaxText = 10000;  // bytes of the replacement

  // list: one replacement per line, "my address -> 12 Main Street", with \n for a line break and \\ for a backslash.
  // forms: more replacements; those of the list have priority. Lines that cannot be used are skipped; see `warnings`.
  Replacements(std::string_view list, const std::vector<WrittenForm>& forms);

  // Replaces the longest phrases, as spoken or as shown, in any case. A mark after a phrase and "'s" are kept. Words
  // that may begin a phrase are not stable.
  void apply(std::vector<ReplacedWord>& words) const;
  bool empty() const noexcept { return texts_.empty(); }
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }  // each names its line

 private:
  void add(const std::string& phrase, std::string text);

  std::unordered_map<std::string, std::string> texts_;  // keyed by phrase
  std::unordered_set<std::string> beginnings_;          // prefixes of phrases, in whole words
  std::size_t longest_ = 0;                             // length of the longest phrase in words
  std::vector<std::string> warnings_;
};

// The texts before and after the arrow of a line such as "my address -> 12 Main Street". `what` is for error messages.
// Throws std::invalid_argument with the line. Escapes in the text after the arrow, which may be empty, are replaced.
std::pair<std::string, std::string> split_arrow(std::string_view line, const char* what);

// Words and phrases whose letters are replaced by stars.
class WordMask {
 public:
  // list: one entry per line, in any case. Lines that cannot be used are skipped; see `warnings`.
  explicit WordMask(std::string_view list);
  void apply(std::vector<std::string>& words) const;
  std::size_t longest() const noexcept { return longest_; }  // length of the longest phrase in words
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }  // a sentence for each skipped line

 private:
  std::unordered_set<std::string> phrases_;
  std::vector<std::string> warnings_;
  std::size_t longest_ = 0;
};

}  // namespace asr_stream
