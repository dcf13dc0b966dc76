// Grapheme-to-phoneme conversion for words outside dictionaries: a joint n-gram model over pairs of letters and phones
// (Bisani and Ney 2008, "Joint-sequence models for grapheme-to-phoneme conversion"). `asr lexicon train` writes the
// file. It is a language model in the format of ngram_lm.h whose words are the pairs: letters, '}', and phones
// separated by '|', as in `PH}F`, `X}K|S` and, for silent letters, `E}`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "search/ngram_lm.h"

namespace asr_stream {

// Immutable and thread-safe.
class G2p {
 public:
  static constexpr std::size_t kMaxLetters = 64;  // per word; limits the work

  struct Pronunciation {
    std::vector<std::int32_t> phones;  // indices into `phones()`
    double log_prob;                   // given the word, among the hypotheses of the beam
  };

  // file: the whole file, which is kept. Throws std::invalid_argument if it is not a valid file.
  explicit G2p(FileBytes file);

  // All phones that the model can output, sorted by their bytes.
  const std::vector<std::string>& phones() const noexcept { return phones_; }

  // The most likely pronunciations, at most `num_best`, best first. word: UTF-8, in the case of the training
  // dictionary. Returns none for a word with more than kMaxLetters letters or with an unknown letter. Throws
  // std::invalid_argument for num_best < 1.
  std::vector<Pronunciation> pronounce(std::string_view word, int num_best) const;

 private:
  struct Pair {
    std::int32_t word;                 // id in the n-gram model
    std::vector<std::int32_t> phones;
  };

  NgramLm lm_;
  std::vector<std::string> phones_;
  std::unordered_map<std::string_view, std::vector<Pair>> pairs_;  // by their letters
  std::size_t max_letters_ = 0;                                    // longest pair
};

// Pronounces words: known words with a language model's pronunciations, others with its G2P model. Not thread-safe.
// Must not outlive the language model.
class Pronouncer {
 public:
  explicit Pronouncer(const NgramLm& lm) : lm_(lm) {}

  // Pronunciations, the most likely first, with one byte per phone. `what`, such as "hotword", is for error messages.
  // Throws std::invalid_argument for a word without pronunciation.
  std::vector<std::string> pronounce(const std::string& word, const char* what);

 private:
  void open_g2p();
  void read_g2p();

  const NgramLm& lm_;
  std::unique_ptr<const G2p> g2p_;
  std::exception_ptr g2p_fault_;  // of a damaged one, which is read only once
  std::string phone_bytes_;       // byte of each phone of g2p_
};

}  // namespace asr_stream
