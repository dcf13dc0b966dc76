#include "text/mask.h"

#include <algorithm>

#include "search/spelling.h"
#include "text/letter_case.h"

namespace asr_stream {

WordMask::WordMask(std::string_view list) {
  for (const std::string_view line : list_lines(list)) {
    const std::vector<std::string> words = split_words(to_lower(line));
    phrases_.insert(joined(words, 0, words.size()));
    longest_ = std::max(longest_, words.size());
  }
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
