// A vocabulary as a trie of bytes, by spelling or by pronunciation. It gives the words that a prefix can become and the
// probability of the most likely one, for language model look-ahead (Ortmanns et al. 1996, "Language-model look-ahead
// for large vocabulary speech recognition"). Homophones end at the same node; a word with several pronunciations ends
// at several nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace asr_stream {

// Immutable. A node is an index; the root is 0.
class Lexicon {
 public:
  static constexpr std::int32_t kRoot = 0;
  static constexpr std::int32_t kNone = -1;
  static constexpr std::size_t kMaxWords = 16;  // maximum per node; the most likely are kept

  struct Entry {
    std::string_view bytes;  // not empty
    std::int32_t word;
  };

  // `entries`: in any order. `log_probs`: of every word, by its id.
  Lexicon(std::vector<Entry> entries, const float* log_probs);

  // The child of `node` for the next byte; kNone if no word has this prefix.
  std::int32_t child(std::int32_t node, std::uint8_t byte) const noexcept;

  // The children of `node` are the `num_children` nodes from `first_child` on. They come after `node`.
  std::int32_t first_child(std::int32_t node) const noexcept { return at(node).first_child; }
  std::int32_t num_children(std::int32_t node) const noexcept { return at(node).num_children; }
  std::uint8_t byte(std::int32_t node) const noexcept { return at(node).byte; }  // its last byte; 0 for the root

  // The words that end at `node`, most likely first.
  std::size_t num_words(std::int32_t node) const noexcept { return at(node).num_words; }
  const std::int32_t* words(std::int32_t node) const noexcept {
    return words_.data() + static_cast<std::size_t>(at(node).first_word);
  }
  // The most likely of these words, or kNone.
  std::int32_t word(std::int32_t node) const noexcept { return num_words(node) ? *words(node) : kNone; }

  // Positions are in the list of all words sorted by bytes, with one entry per pronunciation. The words that begin with
  // the bytes of `node` are adjacent: from this position to that of the next node with the same parent.
  std::uint32_t first_place(std::int32_t node) const noexcept {
    return static_cast<std::uint32_t>(at(node).first_word);
  }
  std::size_t num_places() const noexcept { return words_.size(); }
  std::int32_t word_at(std::uint32_t place) const noexcept { return words_[place]; }

  // The highest log-probability of the words that begin with the bytes of `node`.
  float best_log_prob(std::int32_t node) const noexcept { return at(node).best_log_prob; }

  std::size_t num_nodes() const noexcept { return nodes_.size(); }

 private:
  // The children of a node are adjacent, in ascending order of their bytes.
  struct Node {
    std::int32_t first_child;
    std::int32_t first_word;
    float best_log_prob;
    std::uint16_t num_children;
    std::uint8_t num_words;
    std::uint8_t byte;
  };

  const Node& at(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)]; }

  std::vector<Node> nodes_;
  std::vector<std::int32_t> words_;  // sorted by bytes; homophones most likely first
};

}  // namespace asr_stream
