#include "search/lexicon.h"

#include <algorithm>
#include <limits>

namespace asr_stream {

namespace {

// An entry with a number that decides most comparisons.
struct Sorted {
  std::uint64_t sort_key;  // the first eight bytes
  std::string_view bytes;
  std::int32_t word;
  float log_prob;

  // Sorts by bytes; equal spellings by probability, most likely first.
  bool operator<(const Sorted& other) const noexcept {
    if (sort_key != other.sort_key) return sort_key < other.sort_key;
    const int order = bytes.compare(other.bytes);
    if (order != 0) return order < 0;
    return log_prob != other.log_prob ? log_prob > other.log_prob : word < other.word;
  }
};

std::uint64_t sort_key(std::string_view bytes) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    number = number << 8 | (i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0u);
  }
  return number;
}

}  // namespace

Lexicon::Lexicon(std::vector<Entry> entries, const float* log_probs) {
  std::vector<Sorted> sorted;
  sorted.reserve(entries.size());
  for (const Entry& entry : entries) {
    sorted.push_back({sort_key(entry.bytes), entry.bytes, entry.word, log_probs[entry.word]});
  }
  std::vector<Entry>().swap(entries);
  std::sort(sorted.begin(), sorted.end());

  const auto same = [](const Sorted& a, const Sorted& b) { return a.word == b.word && a.bytes == b.bytes; };
  sorted.erase(std::unique(sorted.begin(), sorted.end(), same), sorted.end());
  words_.reserve(sorted.size());
  for (const Sorted& entry : sorted) words_.push_back(entry.word);

  // Nodes are created breadth first. The entries of a node are [first, last), which share their first `depth` bytes.
  struct Range {
    std::uint32_t first, last, depth;
  };
  std::vector<Range> ranges{{0, static_cast<std::uint32_t>(sorted.size()), 0}};
  nodes_.push_back({0, 0, 0.0f, 0, 0, 0});
  for (std::size_t index = 0; index < nodes_.size(); ++index) {
    const Range range = ranges[index];
    Node node = nodes_[index];
    node.best_log_prob = -std::numeric_limits<float>::infinity();
    node.first_word = static_cast<std::int32_t>(range.first);
    std::uint32_t next = range.first;
    for (; next < range.last && sorted[next].bytes.size() == range.depth; ++next) {
      node.best_log_prob = std::max(node.best_log_prob, sorted[next].log_prob);
      if (node.num_words < kMaxWords) ++node.num_words;
    }
    node.first_child = static_cast<std::int32_t>(nodes_.size());
    while (next < range.last) {
      const char byte = sorted[next].bytes[range.depth];
      const std::uint32_t first = next;
      for (; next < range.last && sorted[next].bytes[range.depth] == byte; ++next) {
        node.best_log_prob = std::max(node.best_log_prob, sorted[next].log_prob);
      }
      ranges.push_back({first, next, range.depth + 1});
      nodes_.push_back({0, 0, 0.0f, 0, 0, static_cast<std::uint8_t>(byte)});
      ++node.num_children;
    }
    nodes_[index] = node;
  }
  nodes_.shrink_to_fit();
}

std::int32_t Lexicon::child(std::int32_t node, std::uint8_t byte) const noexcept {
  const Node& parent = at(node);
  const Node* const first = nodes_.data() + parent.first_child;
  const Node* const end = first + parent.num_children;
  const Node* const found =
      std::lower_bound(first, end, byte, [](const Node& child, std::uint8_t wanted) { return child.byte < wanted; });
  return found != end && found->byte == byte ? static_cast<std::int32_t>(found - nodes_.data()) : kNone;
}

}  // namespace asr_stream
