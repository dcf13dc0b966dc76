// Formats words for users: applies spoken commands, masking, numbers, case and punctuation, and replacements, in this
// order, to one utterance after another.
//
// Words that a partial shows as stable stay as long as the recognized words do. Partials without a new word change no
// mark and no case; with one, those of words that others follow change once at most, when the network has seen all the
// words that they depend on. The cost of a partial depends only on its new words. The only state between utterances is
// whether a sentence continues after a forced cut.
//
// The caller runs the punctuation network when a partial or a final asks for it:
//
//     const PunctuationRun* run = formatter.partial(words, num_stable);
//     ShownText text = formatter.shown(the network's answer for `run`, if any);
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "search/words.h"
#include "text/commands.h"
#include "text/dictated.h"
#include "text/language.h"
#include "text/punctuation.h"
#include "text/replacements.h"

namespace asr_stream {

struct TextOptions {
  bool formatted = true;               // with numbers, case and punctuation; otherwise only words
  const Language* language = nullptr;  // null if words are shown as recognized
  EnglishSpelling spelling = kAmerican;
  std::shared_ptr<const Commands> commands;                // or none
  std::shared_ptr<const WordMask> mask;                    // or none
  std::shared_ptr<const PunctuationMetadata> punctuation;  // metadata of the network; null: lower case, except for "I"
  std::shared_ptr<const Replacements> replacements;        // or none
  std::vector<std::string> warnings;                       // a sentence for each skipped line of a list
};

// Returns null if the text is shown as recognized. A language without a folder has no numbers, case or punctuation.
// language: its code. forms: of hotwords. Throws std::invalid_argument for commands if the language has none.
std::shared_ptr<const TextOptions> text_options(const Options& given, std::string_view language,
                                                std::shared_ptr<const PunctuationMetadata> punctuation = nullptr,
                                                const std::vector<WrittenForm>& forms = {});

// One run of the network: words in lower case, and the pause before each word in seconds, NaN if unknown.
struct PunctuationRun {
  std::vector<std::string> words;
  std::vector<double> pauses_s;
  SpecialUnit beginning;  // kSentence, kContinues, or kNone if words before the first are left out
  bool complete;          // whether the speaker has finished
};

struct ShownText {
  std::vector<Word> words;  // a word for several has their times and lowest confidence
  std::size_t num_stable = 0;
  std::size_t num_taken_back = 0;  // finals only: number of earlier finals that it takes back
};

// For one stream. Call `shown` after each partial and final, unless there is nothing to show.
class TextFormatter {
 public:
  explicit TextFormatter(std::shared_ptr<const TextOptions> options) : options_(std::move(options)) {}

  // The network input that the text needs, or null. Valid until `shown`.
  const PunctuationRun* partial(const std::vector<Word>& words, std::size_t num_stable);
  // is_cut: whether the speaker continues.
  const PunctuationRun* final(const std::vector<Word>& words, bool is_cut);
  // Takes probabilities (num_words, kNumMarks) and (num_words, kNumCases) for the words of the run; none without a run,
  // or if the network failed. Throws std::invalid_argument for a different size.
  ShownText shown(const std::vector<float>& mark_probs = {}, const std::vector<float>& case_probs = {});
  void reset();  // starts a new text

 private:
  // A text in progress.
  struct Draft {
    std::vector<Word> words;
    std::vector<ShownToken> tokens;  // before punctuation
    std::vector<FoundCommand> found;
    std::size_t num_taken_back = 0;
    std::size_t first = 0;           // first token that the network gets
    std::size_t num_shown = 0;       // leading tokens that no longer change
    bool is_final = false;
    bool complete = false;
  };
  // A token of the last partial.
  struct LastShown {
    std::string text;  // before punctuation
    const SpokenCommand* command;
    std::optional<HeldMark> mark;  // none if it no longer changes, and for commands
  };

  void begin_utterance();
  const PunctuationRun* format(std::vector<Word> words, std::size_t num_stable, bool is_final, bool complete);
  const PunctuationRun* ask_network(const std::vector<std::string>& texts, const std::vector<std::string>& unmasked);
  TokensWithCommands draft_tokens() const { return {draft_.words, draft_.tokens, draft_.found}; }
  bool is_settled(std::size_t token) const;
  std::size_t num_settled(const std::vector<std::size_t>& tokens) const;
  std::vector<std::optional<HeldMark>> held_marks(const std::vector<std::size_t>& places,
                                                  const std::vector<const SpokenCommand*>& spoken) const;
  void passes(const SpokenCommand* command);
  void punctuate_draft(const std::vector<float>& mark_probs, const std::vector<float>& case_probs,
                       std::vector<std::string>& all);
  void leave_unpunctuated(std::vector<std::string>& all);

  std::shared_ptr<const TextOptions> options_;
  bool continues_ = false;    // whether the utterance continues a sentence
  std::vector<bool> continued_;  // whether each of the utterances before did, for "scratch that"
  double last_end_s_ = 0.0;   // end of the previous utterance
  // The shown text of the current utterance.
  std::vector<std::string> words_;  // settled words as recognized
  std::vector<ShownToken> tokens_;  // tokens of words_, before punctuation
  std::vector<std::string> shown_;  // text of the first tokens
  bool in_sentence_ = false;        // whether a sentence is open after shown_
  bool after_title_ = false;        // whether a title precedes the next word
  std::vector<LastShown> last_;  // empty if that partial had no marks
  Draft draft_;
  std::optional<PunctuationRun> run_;  // for the draft
};

}  // namespace asr_stream
