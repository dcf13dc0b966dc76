// The spellings of a vocabulary as a trie of bytes: which words a beginning can still become, and how likely the
// likeliest of them is (the look-ahead of Ortmanns et al. 1996, "Language-model look-ahead for large vocabulary
// speech recognition").
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace asr_stream {

// Immutable. Nodes are indices; the root is 0.
class Lexicon {
 public:
  static constexpr std::int32_t kRoot = 0;
  static constexpr std::int32_t kNone = -1;

  // `words`: in strictly ascending order of their bytes, none empty; word i is `words[i]`. `log_probs`: of each.
  Lexicon(const std::vector<std::string_view>& words, const float* log_probs);

  // The node of the spelling of `node` + `byte`, kNone where no word begins so.
  std::int32_t child(std::int32_t node, std::uint8_t byte) const noexcept;

  // The children of `node` are the `num_children` nodes from `first_child` on, which come after it.
  std::int32_t first_child(std::int32_t node) const noexcept { return at(node).first_child; }
  std::int32_t num_children(std::int32_t node) const noexcept { return at(node).num_children; }
  std::uint8_t byte(std::int32_t node) const noexcept { return at(node).byte; }  // its last; 0 of the root

  // The word spelled in full at `node`, or kNone.
  std::int32_t word(std::int32_t node) const noexcept { return at(node).word; }

  // The highest log-probability of the words that begin with the spelling of `node`.
  float best_log_prob(std::int32_t node) const noexcept { return at(node).best_log_prob; }

  std::size_t num_nodes() const noexcept { return nodes_.size(); }

 private:
  // The children of a node lie side by side, in ascending order of their bytes.
  struct Node {
    std::int32_t first_child;
    std::int32_t word;
    float best_log_prob;
    std::uint16_t num_children;
    std::uint8_t byte;
  };

  const Node& at(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)]; }

  std::vector<Node> nodes_;
};

}  // namespace asr_stream
