// Pronounces words: known words with a language model's pronunciations, others with its G2P model.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "search/g2p.h"
#include "search/ngram_lm.h"

namespace asr_stream {

// Not thread-safe. Must not outlive the language model.
class Pronouncer {
 public:
  explicit Pronouncer(const NgramLm& lm) : lm_(lm) {}

  // Pronunciations, the most likely first, with one byte per phone. `what`, such as "hotword", is for error messages.
  // Throws std::invalid_argument for a word without pronunciation.
  std::vector<std::string> pronounce(const std::string& word, const char* what);

 private:
  void open_g2p();

  const NgramLm& lm_;
  std::unique_ptr<const G2p> g2p_;
  std::string phone_bytes_;  // byte of each phone of g2p_
};

}  // namespace asr_stream
