// Words as they are shown: spoken commands, masked words, numbers, case and punctuation, replacements, in this order,
// of one utterance after another.
//
// What was shown as stable in a partial stays as long as the words under it do, and what a partial costs depends on
// what is new in it. Nothing of an utterance reaches the next one but that a sentence goes on after a forced cut.
//
// The network for case and punctuation is run by the owner, where a partial or a final asks for it:
//
//     const PunctuationRun* run = formatter.partial(words, num_stable);
//     ShownText text = formatter.shown(what the network answers to `run`, if there is one);
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/words.h"
#include "text/commands.h"
#include "text/dictated.h"
#include "text/language.h"
#include "text/mask.h"
#include "text/punctuation.h"
#include "text/replacements.h"

namespace asr_stream {

struct TextOptions {
  bool formatted = true;               // with numbers, case and punctuation; or words alone
  const Language* language = nullptr;  // or none: words as they are recognized
  EnglishSpelling spelling = EnglishSpelling::kAmerican;
  std::shared_ptr<const Commands> commands;                // or none
  std::shared_ptr<const WordMask> mask;                    // or none
  std::shared_ptr<const PunctuationMetadata> punctuation;  // of the network, or none: small letters, and "I"
  std::shared_ptr<const Replacements> replacements;        // or none
};

// What the text of a model's events is to be. Lists: one entry a line, or none.
struct TextRequest {
  bool formatted = true;
  std::string_view language;  // its code
  std::shared_ptr<const PunctuationMetadata> punctuation = nullptr;
  std::optional<std::string> mask = {};
  bool commands = false;  // the language's; a list of them turns them on
  std::optional<std::string> command_list = {};
  std::optional<std::string> replace = {};
  std::vector<WrittenForm> written_forms = {};  // of hotwords
  EnglishSpelling spelling = EnglishSpelling::kAmerican;
};

// Null: the text is shown as it is recognized. A language without a folder has neither numbers nor case and
// punctuation. std::invalid_argument for a list that is amiss, and for commands of a language that has none.
std::shared_ptr<const TextOptions> text_options(const TextRequest& request);

// One run of the network: words in small letters, and the pause before each in seconds, NaN where unknown.
struct PunctuationRun {
  std::vector<std::string> words;
  std::vector<double> pauses_s;
  SpecialUnit beginning;  // kSentence, kContinues, or kNone: words before the first one are left out
  bool complete;          // the speaker has ended
};

struct ShownText {
  std::vector<Word> words;  // a word that stands for several has their times, and their least confidence
  std::size_t num_stable = 0;
  std::size_t num_taken_back = 0;  // finals only: number of earlier finals that it takes back
};

// For one stream. Each partial and final is followed by `shown`, but where there is none to be shown.
class TextFormatter {
 public:
  explicit TextFormatter(std::shared_ptr<const TextOptions> options) : options_(std::move(options)) {}

  // The input that the network must be run on before the text is known, or null. Valid until `shown`.
  const PunctuationRun* partial(const std::vector<Word>& words, std::size_t num_stable);
  // is_cut: the speaker goes on.
  const PunctuationRun* final(const std::vector<Word>& words, bool is_cut);
  // The probabilities (num_words, kNumMarks) and (num_words, kNumCases) of the run's words; none where there was no
  // run. std::invalid_argument for another number.
  ShownText shown(const std::vector<float>& mark_probs = {}, const std::vector<float>& case_probs = {});
  void reset();  // what follows is another text

 private:
  // A text on its way.
  struct Draft {
    std::vector<Word> words;
    std::vector<ShownToken> tokens;  // before punctuation
    std::vector<FoundCommand> found;
    std::size_t num_taken_back = 0;
    std::size_t first = 0;           // token that the network is given first
    std::size_t num_shown = 0;       // tokens that are shown for good
    bool is_final = false;
    bool complete = false;
  };

  void begin_utterance();
  const PunctuationRun* format(std::vector<Word> words, std::size_t num_stable, bool is_final, bool complete);
  TokensWithCommands draft_tokens() const { return {draft_.words, draft_.tokens, draft_.found}; }
  bool is_settled(std::size_t token) const;
  void passes(const SpokenCommand* command);
  void punctuate_draft(const std::vector<float>& mark_probs, const std::vector<float>& case_probs,
                       std::vector<std::string>& all);
  void leave_unpunctuated(std::vector<std::string>& all);

  std::shared_ptr<const TextOptions> options_;
  bool continues_ = false;    // the utterance goes on with a sentence
  bool continued_ = false;    // the one before did
  double last_end_s_ = 0.0;   // of the utterance before
  // The shown text of the current utterance.
  std::vector<std::string> words_;  // as recognized, that are settled
  std::vector<ShownToken> tokens_;  // of them, before punctuation
  std::vector<std::string> shown_;  // of the first tokens
  bool in_sentence_ = false;        // after these
  bool after_title_ = false;        // after these
  std::size_t sentence_length_ = 0;  // words of the sentence after these
  Draft draft_;
  std::optional<PunctuationRun> run_;  // of the draft
};

}  // namespace asr_stream
