// The phones of words: from a language model for known words, from its G2P model for others.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "search/g2p.h"
#include "search/ngram_lm.h"

namespace asr_stream {

// For one thread; must not outlive the language model.
class Pronouncer {
 public:
  explicit Pronouncer(const NgramLm& lm) : lm_(lm) {}

  // More likely ones first, one byte per phone. `what`, such as "hotword", is for errors: throws std::invalid_argument
  // for a word without any.
  std::vector<std::string> pronounce(const std::string& word, const char* what);

 private:
  void open_g2p();

  const NgramLm& lm_;
  std::unique_ptr<const G2p> g2p_;
  std::vector<char> phone_bytes_;  // of the phones of g2p_
};

}  // namespace asr_stream
