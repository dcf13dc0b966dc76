// Shallow fusion of a word language model with a search over tokens: what the language model says of a hypothesis,
// while its last word is still being spelled. The lexicon says which words that can become; a word outside it stays
// possible, at a cost.
//
// A model that writes letters has learnt from its transcripts how often each occurs, and the language model knows it
// once more. What is known twice is divided out once: by the share of the letters in the words of the lexicon (a
// density ratio, McDermott et al. 2019, with a unigram of letters in place of the recogniser's inner language model).
// Words outside the lexicon do without, or any letters would make a word.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ngram_lm.h"

namespace asr_stream {

// The defaults are tuned for the bundled models.
struct LmFusionOptions {
  float weight = 0.8f;        // of the language model's log-probabilities; 0 .. 10
  float word_bonus = -1.6f;   // added for each word; -20 .. 20
  float oov_penalty = 8.0f;   // taken off for a word outside the lexicon, beside P(<unk>); 0 .. 100
  float prior_weight = 0.5f;  // of the letters' own log-probabilities, taken off; 0 .. 2
};

// Immutable, for any number of searches.
class LmFusion {
 public:
  // Where a hypothesis stands: the finished words, and the one under way.
  struct Path {
    NgramLm::State state;
    std::int32_t node;  // of the lexicon; kNone: the word under way is outside it
    bool in_word;
    float finished;  // score of the finished words
    float pending;   // estimate for the word under way
    float letters;   // what its letters have gained

    float score() const { return finished + pending; }
  };

  // tokens: UTF-8 spelling of every token, "▁" (U+2581) for the border between words, as in SentencePiece; an empty
  // one is not heard. Throws std::invalid_argument.
  LmFusion(std::shared_ptr<const NgramLm> lm, const std::vector<std::string>& tokens, const LmFusionOptions& options);

  Path begin() const;
  Path advance(const Path& path, std::int32_t token) const;
  // The score when no more words come: the word under way is finished, and so is the sentence.
  float finish(const Path& path) const;

  std::size_t num_tokens() const noexcept { return spellings_.size(); }

 private:
  void finish_word(Path& path) const;

  std::shared_ptr<const NgramLm> lm_;
  std::vector<std::string> spellings_;  // of tokens, with a space for the border
  LmFusionOptions options_;
  std::array<float, 256> letter_gains_;  // of each byte, and of the border
};

}  // namespace asr_stream
