#include "search/lexicon.h"

#include <algorithm>
#include <limits>

namespace asr_stream {

Lexicon::Lexicon(const std::vector<std::string_view>& words, const float* log_probs) {
  // Breadth first; a node's words are the range [first, last), which share its spelling of `depth` bytes.
  struct Range {
    std::size_t first, last, depth;
  };
  std::vector<Range> ranges{{0, words.size(), 0}};
  nodes_.push_back({0, kNone, 0.0f, 0, 0});
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const Range range = ranges[index];
    std::size_t next = range.first;
    if (next < range.last && words[next].size() == range.depth) {
      nodes_[index].word = static_cast<std::int32_t>(next++);
    }
    nodes_[index].first_child = static_cast<std::int32_t>(nodes_.size());
    while (next < range.last) {
      const char byte = words[next][range.depth];
      const std::size_t first = next;
      while (next < range.last && words[next][range.depth] == byte) ++next;
      ranges.push_back({first, next, range.depth + 1});
      nodes_.push_back({0, kNone, 0.0f, 0, static_cast<std::uint8_t>(byte)});
      ++nodes_[index].num_children;
    }
    nodes_[index].best_log_prob = range.first == range.last
                                      ? -std::numeric_limits<float>::infinity()
                                      : *std::max_element(log_probs + range.first, log_probs + range.last);
  }
  nodes_.shrink_to_fit();
}

std::int32_t Lexicon::child(std::int32_t node, std::uint8_t byte) const noexcept {
  const Node& parent = at(node);
  for (std::int32_t i = parent.first_child; i < parent.first_child + parent.num_children; ++i) {
    if (at(i).byte >= byte) return at(i).byte == byte ? i : kNone;
  }
  return kNone;
}

}  // namespace asr_stream
