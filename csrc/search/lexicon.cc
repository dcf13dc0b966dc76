#include "search/lexicon.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace asr_stream {

namespace {

// The first eight bytes of an entry, in the order of strings, and its number.
struct SortKey {
  std::uint64_t bytes;
  std::uint32_t entry;
};

std::uint64_t first_bytes(std::string_view bytes) noexcept {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    number = number << 8 | (i < bytes.size() ? static_cast<std::uint8_t>(bytes[i]) : 0u);
  }
  return number;
}

// Radix sort, which takes a quarter of the time of std::sort.
void sort_by_bytes(std::vector<SortKey>& keys) {
  std::array<std::array<std::uint32_t, 256>, 8> counts{};  // of each value of each byte
  for (const SortKey& key : keys) {
    for (std::size_t i = 0; i < 8; ++i) ++counts[i][key.bytes >> 8 * i & 0xff];
  }
  std::vector<SortKey> sorted(keys.size());
  for (std::size_t i = 0; i < 8; ++i) {
    std::array<std::uint32_t, 256>& next = counts[i];
    std::uint32_t before = 0;
    for (std::uint32_t& count : next) before += std::exchange(count, before);
    for (const SortKey& key : keys) sorted[next[key.bytes >> 8 * i & 0xff]++] = key;
    keys.swap(sorted);
  }
}

// Sorts by bytes; equal spellings by probability, most likely first. Without duplicates.
std::vector<Lexicon::Entry> sorted(const std::vector<Lexicon::Entry>& entries, const float* log_probs) {
  const auto is_before = [&](const SortKey& a, const SortKey& b) {
    const Lexicon::Entry &x = entries[a.entry], &y = entries[b.entry];
    if (const int order = x.bytes.compare(y.bytes); order != 0) return order < 0;
    return log_probs[x.word] != log_probs[y.word] ? log_probs[x.word] > log_probs[y.word] : x.word < y.word;
  };
  std::vector<SortKey> keys;
  keys.reserve(entries.size());
  for (const Lexicon::Entry& entry : entries) {
    keys.push_back({first_bytes(entry.bytes), static_cast<std::uint32_t>(keys.size())});
  }
  sort_by_bytes(keys);
  std::vector<Lexicon::Entry> result;
  result.reserve(entries.size());
  for (auto first = keys.begin(); first != keys.end();) {
    const auto last = std::find_if(first, keys.end(), [&](const SortKey& key) { return key.bytes != first->bytes; });
    std::sort(first, last, is_before);
    for (; first != last; ++first) {
      const Lexicon::Entry& entry = entries[first->entry];
      if (result.empty() || result.back().word != entry.word || result.back().bytes != entry.bytes) {
        result.push_back(entry);
      }
    }
  }
  return result;
}

std::size_t common_size(std::string_view a, std::string_view b) noexcept {
  const std::size_t size = std::min(a.size(), b.size());
  std::size_t i = 0;
  while (i < size && a[i] == b[i]) ++i;
  return i;
}

}  // namespace

Lexicon::Lexicon(std::vector<Entry> entries, const float* log_probs) {
  entries = sorted(entries, log_probs);
  words_.reserve(entries.size());
  for (const Entry& entry : entries) words_.push_back(entry.word);

  // Nodes are numbered breadth first: those of a depth are adjacent, in the order of their bytes. So the number of the
  // next node of each depth follows from the number of nodes at each depth. An entry needs new nodes for the bytes that
  // it does not share with the entry before it.
  std::vector<std::uint32_t> num_shared(entries.size(), 0);
  std::vector<std::int32_t> next{1, 0};  // at first the number of nodes of each depth, and 0 for one more depth
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string_view bytes = entries[i].bytes;
    if (i > 0) num_shared[i] = static_cast<std::uint32_t>(common_size(entries[i - 1].bytes, bytes));
    if (bytes.size() + 2 > next.size()) next.resize(bytes.size() + 2);
    for (std::size_t depth = num_shared[i] + 1; depth <= bytes.size(); ++depth) ++next[depth];
  }
  std::int32_t num_nodes = 0;
  for (std::int32_t& count : next) num_nodes += std::exchange(count, num_nodes);

  constexpr float kNever = -std::numeric_limits<float>::infinity();
  nodes_.resize(static_cast<std::size_t>(num_nodes));
  nodes_[0] = {next[1], 0, kNever, 0, 0, 0};
  std::vector<std::size_t> path(next.size(), 0);  // the nodes of the bytes of an entry, by depth
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::string_view bytes = entries[i].bytes;
    for (std::size_t depth = num_shared[i] + 1; depth <= bytes.size(); ++depth) {
      path[depth] = static_cast<std::size_t>(next[depth]++);
      const auto byte = static_cast<std::uint8_t>(bytes[depth - 1]);
      nodes_[path[depth]] = {next[depth + 1], static_cast<std::int32_t>(i), kNever, 0, 0, byte};
      ++nodes_[path[depth - 1]].num_children;
    }
    Node& last = nodes_[path[bytes.size()]];
    last.best_log_prob = std::max(last.best_log_prob, log_probs[entries[i].word]);
    if (last.num_words < kMaxWords) ++last.num_words;
  }
  for (std::size_t index = nodes_.size(); index-- > 0;) {  // children come after their parent
    Node& node = nodes_[index];
    const Node* const children = nodes_.data() + node.first_child;
    for (std::size_t i = 0; i < node.num_children; ++i) {
      node.best_log_prob = std::max(node.best_log_prob, children[i].best_log_prob);
    }
  }
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
