// Masking of words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace asr_stream {

// Words and phrases whose letters are replaced by stars.
class WordMask {
 public:
  explicit WordMask(std::string_view list);  // one entry per line, in any case
  void apply(std::vector<std::string>& words) const;
  std::size_t longest() const noexcept { return longest_; }  // length of the longest phrase in words

 private:
  std::unordered_set<std::string> phrases_;
  std::size_t longest_ = 0;
};

}  // namespace asr_stream
