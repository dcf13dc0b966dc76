// A back-off n-gram language model of words (Katz 1987) in packed form. `asr lm` writes the file from an ARPA file;
// asr/lm/packed.py describes its bytes. It may contain pronunciations of its words, and a G2P model for other words.
//
// The n-grams of each order are sorted, so those with the same (n-1)-gram prefix are adjacent. They form a trie, as in
// Heafield 2011, "KenLM: Faster and smaller language model queries". A state holds the positions of the last 1, 2, ...
// words, so scoring a word takes one binary search per order. The tables stand in the file as they are read, so that
// processes that map the file share their memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "file_bytes.h"
#include "search/lexicon.h"
#include "search/look_ahead.h"
#include "search/packed_numbers.h"

namespace asr_stream {

// Immutable and thread-safe. Log-probabilities are natural logarithms.
class NgramLm {
 public:
  static constexpr std::size_t kMaxOrder = 9;
  static constexpr std::size_t kMaxPhones = 128;
  static constexpr std::uint8_t kFirstPhone = 0x80;  // the byte that stands for phone 0 in pronunciations

  // A table of numbers quantized to 8 bits: low + step * code.
  struct Quantized {
    float low = 0.0f;
    float step = 0.0f;
    const std::uint8_t* codes = nullptr;

    float operator[](std::size_t i) const noexcept { return low + step * static_cast<float>(codes[i]); }
  };

  // contexts[k - 1]: index of the last k words among the k-grams, or -1 if they are not a k-gram in the model.
  struct State {
    std::array<std::int32_t, kMaxOrder - 1> contexts;
  };

  // The n-grams of one order. Unigrams are all words in order, and store their own log-probabilities.
  struct Level {
    std::size_t count = 0;
    PackedNumbers words;  // last word of each n-gram
    Quantized log_probs;
    Quantized backoffs;     // not for the highest order
    PackedRanges children;  // range of each n-gram in the next level; not for the highest order
  };

  // file: the whole file, which is kept. Throws std::invalid_argument if it is not a valid file.
  explicit NgramLm(FileBytes file);
  // The same for a file of which a copy is kept.
  NgramLm(const std::uint8_t* data, std::size_t size)
      : NgramLm(FileBytes(std::vector<std::uint8_t>(data, data + size))) {}

  State begin() const noexcept { return begin_; }  // the state at the beginning of a sentence

  // Returns log P(word | state) and updates `state`. word: in [0, num_words).
  float advance(State& state, std::int32_t word) const noexcept;

  std::int32_t find(std::string_view word) const noexcept;  // unknown() if outside the vocabulary
  std::string_view word(std::int32_t word) const noexcept {
    const std::uint32_t* const start = word_starts_.data() + word;
    return text_.substr(start[0], start[1] - start[0] - 1);
  }
  std::int32_t unknown() const noexcept { return unknown_; }
  std::int32_t end_of_sentence() const noexcept { return end_of_sentence_; }
  float unigram_log_prob(std::int32_t word) const noexcept {
    return unigram_log_probs_[static_cast<std::size_t>(word)];
  }

  // Names of the phones; none if the file has no pronunciations.
  const std::vector<std::string>& phones() const noexcept { return phones_; }
  // The byte of each phone of a model. Throws std::invalid_argument unless these are the same phones as `phones()`.
  std::string bytes_of_phones(const std::vector<std::string>& phones) const;
  // Pronunciations of a word, which may have none. Byte kFirstPhone + i is phone i.
  std::vector<std::string_view> pronunciations(std::int32_t word) const;
  // Size of the pronunciations at the end of the file, in bytes.
  std::size_t pronunciations_size() const noexcept { return pronunciations_size_; }
  // The file of the G2P model for other words; empty if there is none.
  const FileBytes& g2p() const noexcept { return g2p_; }

  // log P(byte | before) of each pair of adjacent bytes, [before * 256 + byte], smoothed, in a text with the words'
  // unigram probabilities and a space around every word. The bytes are those of the pronunciations or of the spellings.
  // Computed on first use.
  const std::vector<float>& pair_log_probs(bool of_pronunciations = false) const;

  // Built on first use. By pronunciation, or else by spelling.
  const Lexicon& lexicon(bool of_pronunciations = false) const;
  // The look-ahead for one of these lexicons; null if the file has no bigrams.
  const LookAhead* look_ahead(bool of_pronunciations) const;

  // The range of bigrams that begin with `word`. Only for order 2 or higher.
  std::pair<std::uint32_t, std::uint32_t> bigrams(std::int32_t word) const noexcept {
    return levels_[0].children[static_cast<std::size_t>(word)];
  }
  std::int32_t bigram_word(std::uint32_t bigram) const noexcept {
    return static_cast<std::int32_t>(levels_[1].words[bigram]);
  }
  const Quantized& bigram_log_probs() const noexcept { return levels_[1].log_probs; }
  const Level& level(std::size_t order) const { return levels_.at(order - 1); }
  float backoff(std::int32_t word) const noexcept { return levels_[0].backoffs[static_cast<std::size_t>(word)]; }
  std::size_t num_words() const noexcept { return levels_[0].count; }
  std::size_t order() const noexcept { return levels_.size(); }
  std::size_t num_ngrams(std::size_t order) const { return levels_.at(order - 1).count; }

 private:
  std::vector<double> pair_shares(bool of_pronunciations) const;
  std::size_t num_forms(std::int32_t word, bool of_pronunciations) const noexcept;
  template <typename Use>
  void for_each_form(std::int32_t word, bool of_pronunciations, Use use) const;
  std::int32_t find_word(std::string_view word) const noexcept;  // -1 if outside the vocabulary
  std::int32_t find_child(std::size_t order, std::int32_t context, std::int32_t word) const noexcept;

  class Reader;
  void read_words(Reader& reader);
  void read_ngrams(Reader& reader);
  void read_children(Reader& reader, Level& parents, Level& level);
  void read_pronunciations(Reader& reader);

  FileBytes file_;  // all pointers below are into it
  std::string_view text_;                   // the words, with a separator after each
  std::vector<std::uint32_t> word_starts_;  // start of each word in `text_`, and the end
  const float* unigram_log_probs_ = nullptr;
  std::vector<Level> levels_;
  std::vector<std::string> phones_;
  // Of each word: the number of its pronunciations, and for each the number of its phones, and these. Begins at the
  // byte `pronunciations_[word]`.
  const std::uint8_t* pronunciation_bytes_ = nullptr;
  std::vector<std::uint32_t> pronunciations_;
  FileBytes g2p_;
  std::size_t pronunciations_size_ = 0;
  // [0]: by spelling, [1]: by pronunciation
  mutable std::once_flag lexicon_once_[2], look_ahead_once_[2], pair_log_probs_once_[2];
  mutable std::unique_ptr<const Lexicon> lexicons_[2];
  mutable std::unique_ptr<const LookAhead> look_aheads_[2];
  mutable std::vector<float> pair_log_probs_[2];
  State begin_{};
  std::int32_t unknown_ = 0;
  std::int32_t end_of_sentence_ = 0;
};

// Whether a search is over phones: the model has some, and `lm`, which may be null, has pronunciations.
inline bool have_phones(const NgramLm* lm, const std::vector<std::string>& phones) {
  return lm && !lm->phones().empty() && !phones.empty();
}

}  // namespace asr_stream
