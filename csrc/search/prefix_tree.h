// Lists with shared prefixes, stored backwards: each node points to its parent. Nodes are reference-counted by handles
// and children, and are reused when nothing refers to them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace asr_stream {

// A handle is a node index. kEmpty is the empty list and needs no retain or release.
template <typename Value>
class SharedLists {
 public:
  static constexpr std::int32_t kEmpty = -1;

  // Returns a new node with one handle. The node keeps `parent` alive.
  std::int32_t append(std::int32_t parent, const Value& value) {
    retain(parent);
    if (free_ == kEmpty) {
      nodes_.push_back({parent, 1, value});
      return static_cast<std::int32_t>(nodes_.size() - 1);
    }
    const std::int32_t node = free_;
    free_ = at(node).parent;
    at(node) = {parent, 1, value};
    --num_free_;
    return node;
  }

  void retain(std::int32_t node) {
    if (node != kEmpty) ++at(node).num_references;
  }

  // Calls `before_free(node)` for each node without references, children first.
  template <typename BeforeFree>
  void release(std::int32_t node, BeforeFree before_free) {
    while (node != kEmpty && --at(node).num_references == 0) {
      before_free(node);
      const std::int32_t parent = at(node).parent;
      at(node).parent = free_;
      free_ = node;
      ++num_free_;
      node = parent;
    }
  }

  void release(std::int32_t node) {
    release(node, [](std::int32_t) {});
  }

  Value& operator[](std::int32_t node) { return at(node).value; }
  const Value& operator[](std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)].value; }
  std::int32_t parent(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)].parent; }

  std::size_t num_nodes() const noexcept { return nodes_.size() - num_free_; }
  std::size_t capacity() const noexcept { return nodes_.size(); }  // greater than every node index

 private:
  struct Node {
    std::int32_t parent;  // for a free node, the next free node
    std::int32_t num_references;
    Value value;
  };

  Node& at(std::int32_t node) { return nodes_[static_cast<std::size_t>(node)]; }

  std::vector<Node> nodes_;
  std::int32_t free_ = kEmpty;
  std::size_t num_free_ = 0;
};

// The prefixes of a beam search. There is one node per sequence of tokens (and of words, if the tokens do not determine
// the word). While anything refers to a prefix, extending it in the same way returns the same node, so two hypotheses
// are equal if their nodes are equal.
class PrefixTree {
 public:
  static constexpr std::int32_t kRoot = -1;  // the empty prefix

  // Returns the node of `prefix` + `token`, with one more handle. word: id of the word that the token ends, or a
  // constant for none.
  std::int32_t extend(std::int32_t prefix, std::int32_t token, std::int32_t word) {
    for (std::int32_t child = first_child(prefix); child != kRoot; child = lists_[child].next_sibling) {
      if (lists_[child].token == token && lists_[child].word == word) {
        lists_.retain(child);
        return child;
      }
    }
    const std::int32_t child = lists_.append(prefix, {token, word, kRoot, first_child(prefix), kRoot});
    const std::int32_t next = lists_[child].next_sibling;
    if (next != kRoot) lists_[next].previous_sibling = child;
    first_child(prefix) = child;
    return child;
  }

  void retain(std::int32_t prefix) { lists_.retain(prefix); }

  void release(std::int32_t prefix) {
    lists_.release(prefix, [this](std::int32_t node) { unlink(node); });
  }

  // For a prefix that is not the root.
  std::int32_t last_token(std::int32_t prefix) const { return lists_[prefix].token; }
  std::int32_t ended_word(std::int32_t prefix) const { return lists_[prefix].word; }
  std::int32_t parent(std::int32_t prefix) const { return lists_.parent(prefix); }

  std::size_t num_nodes() const noexcept { return lists_.num_nodes(); }
  std::size_t capacity() const noexcept { return lists_.capacity(); }

 private:
  struct Node {
    std::int32_t token;
    std::int32_t word;
    std::int32_t first_child;
    std::int32_t next_sibling;
    std::int32_t previous_sibling;
  };

  std::int32_t& first_child(std::int32_t prefix) {
    return prefix == kRoot ? root_first_child_ : lists_[prefix].first_child;
  }

  void unlink(std::int32_t node) {
    const Node& gone = lists_[node];
    if (gone.previous_sibling == kRoot) {
      first_child(lists_.parent(node)) = gone.next_sibling;
    } else {
      lists_[gone.previous_sibling].next_sibling = gone.next_sibling;
    }
    if (gone.next_sibling != kRoot) lists_[gone.next_sibling].previous_sibling = gone.previous_sibling;
  }

  SharedLists<Node> lists_;
  std::int32_t root_first_child_ = kRoot;
};

}  // namespace asr_stream
