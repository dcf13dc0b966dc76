// Words as they are shown: masked words, numbers, case and punctuation, in this order, of one utterance after another.
//
// What was shown as stable in a partial stays as long as the words under it do, and what a partial costs depends on what
// is new in it. Nothing of an utterance reaches the next one but that a sentence goes on after a forced cut.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "search/words.h"
#include "text/numbers.h"

namespace asr_stream {

// Words and phrases that are not to be shown: every letter of them becomes a star.
class WordMask {
 public:
  explicit WordMask(std::string_view list);  // one a line, in any case
  void apply(std::vector<std::string>& words) const;  // in small letters
  std::size_t longest() const noexcept { return longest_; }  // phrase, in words

 private:
  std::unordered_set<std::string> phrases_;
  std::size_t longest_ = 0;
};

struct TextOptions {
  enum class Beginning { kSentence, kContinues, kWithin };  // within: words before the first one are left out

  // Case and punctuation of words in small letters with the pauses before them: one shown word for each. complete: the
  // speaker has ended.
  using Punctuate = std::function<std::vector<std::string>(const std::vector<std::string>& words,
                                                           const std::vector<double>& pauses_s, Beginning beginning,
                                                           bool complete)>;

  bool formatted = true;  // with numbers, case and punctuation; or words alone
  bool is_english = true;  // words alone are in small letters, with "I"; others keep what their alphabet writes
  std::shared_ptr<const WordMask> mask;  // or none
  Punctuate punctuate;                   // or none: small letters, and "I"
  std::size_t look_ahead = 0;    // words behind a word that its mark depends on
  std::size_t left_context = 0;  // words before it
};

// How a model with these tokens shows text; null: as it is recognized. mask: a list, or none. Only English words can be
// formatted, those of models that write A to Z and apostrophes; plain ones of these are in small letters, with "I".
std::shared_ptr<const TextOptions> text_options(bool formatted, const std::vector<std::string>& tokens,
                                                const std::string* mask, TextOptions::Punctuate punctuate = nullptr,
                                                std::size_t look_ahead = 0, std::size_t left_context = 0);

struct ShownText {
  std::vector<Word> words;  // a word that stands for several has their times, and their least confidence
  std::size_t num_stable = 0;
};

// For one stream.
class TextFormatter {
 public:
  explicit TextFormatter(std::shared_ptr<const TextOptions> options) : options_(std::move(options)) {}

  ShownText partial(const std::vector<Word>& words, std::size_t num_stable);
  // is_cut: the speaker goes on.
  ShownText final(const std::vector<Word>& words, bool is_cut);
  void reset();  // what follows is another text

 private:
  void begin_utterance();
  ShownText format(const std::vector<Word>& words, std::size_t num_stable, bool is_final, bool complete);

  std::shared_ptr<const TextOptions> options_;
  bool continues_ = false;  // the utterance goes on with a sentence
  // What stands of the utterance under way.
  std::vector<std::string> words_;  // as recognized, that are settled
  std::vector<ShownToken> tokens_;  // of them, before punctuation
  std::vector<std::string> shown_;  // of the first tokens
};

// "HELLO" in small letters: ASCII and, by their code points, Latin, Greek and Cyrillic letters. "i", "i'm" get a capital.
std::string plain_case(const std::string& word);

}  // namespace asr_stream
