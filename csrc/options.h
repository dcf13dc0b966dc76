// The options of recognition: one table, from which everything else is generated. Python, C and JavaScript set an
// option by its name; the command line, its help and the docs loop over the rows.
//
// A new option or list is a field of Options, a row here, and its use; then `python scripts/write_options.py`. Models
// are not options, because streams share them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "contract.h"

namespace asr_stream {

enum class OptionType {
  kFlag,
  kChoice,        // the number of one of `choices`, from 0
  kInteger,
  kMilliseconds,  // an integer, a multiple of an encoder frame
  kNumber,
  kList,          // a text with one entry per line, of at most `high` bytes; by default there is none
};

// The numbers of choices, in the order of the table.
enum SearchKind : std::int32_t { kGreedy, kBeam, kRescore, kJoint };
enum TextStyle : std::int32_t { kFormatted, kPlain };
enum EnglishSpelling : std::int32_t { kAmerican, kBritish, kMixed };

// Values for all options. A new one has the defaults.
struct Options {
  Options();

  std::int32_t chunk_ms, left_context_ms, search, second_pass, use_lm, beam_size, num_rescored, text;
  double beam_threshold, rescore_ctc_weight, joint_ctc_weight, lm_weight, lm_word_bonus, lm_oov_penalty,
      lm_prior_weight, hotword_boost, unknown_cost, silence_after_speech_s, min_silence_after_speech_s,
      silence_without_speech_s, max_utterance_s;
  std::int32_t max_alternatives, commands, spelling;
  std::optional<std::string> hotwords, phrases, mask, replace, own_commands;
};

struct Option {
  const char* name;  // in Python, C, on the command line (with dashes) and in JavaScript (camelCase)
  std::variant<std::int32_t Options::*, double Options::*, std::optional<std::string> Options::*> field;
  OptionType type;
  char bracket;  // '[': `low` itself is allowed; '(': it is not
  double low;
  double high;
  double default_value;
  const char* doc;
  const char* choices = "";
  bool of_model = false;  // the model file has a default; `default_value` is for a file without one
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kMaxListBytes = 1 << 20;  // about 50 000 phrases, whose search takes seconds to build

constexpr Option list_row(const char* name, std::optional<std::string> Options::*field, const char* doc) {
  return {name, field, OptionType::kList, '[', 0, kMaxListBytes, 0, doc};
}

// The weights and costs are tuned for the bundled models.
inline constexpr Option kOptions[] = {
    {"chunk_ms", &Options::chunk_ms, OptionType::kMilliseconds, '[', kEncoderFrameMs, 5120, 640,
     "audio per step; text appears once per chunk", "", true},
    {"left_context_ms", &Options::left_context_ms, OptionType::kMilliseconds, '[', 0, 20480, 2560,
     "audio before the chunk that the encoder attends to", "", true},
    {"search", &Options::search, OptionType::kChoice, '[', 0, 3, kRescore,
     "greedy, beam (CTC prefix beam search), rescore (beam; the attention decoder, if its file is open, rescores "
     "finals of a search over letters), or joint (beam; finals come from a search by the attention decoder and CTC, "
     "without a language model)",
     "greedy, beam, rescore, joint"},
    {"second_pass", &Options::second_pass, OptionType::kFlag, '[', 0, 1, 1,
     "encode each finished utterance a second time, which corrects its final text"},
    {"use_lm", &Options::use_lm, OptionType::kFlag, '[', 0, 1, 1,
     "use the language models, n-gram and neural; search greedy takes none, search joint no n-gram one"},
    {"beam_size", &Options::beam_size, OptionType::kInteger, '[', 1, 1024, 256,
     "hypotheses kept by the beam search; the finals of search joint come from 8"},
    {"num_rescored", &Options::num_rescored, OptionType::kInteger, '[', 1, 1024, 4,
     "hypotheses of a search over letters that the attention decoder rescores; more of them delay finals"},
    {"text", &Options::text, OptionType::kChoice, '[', 0, 1, kFormatted,
     "how words are shown: formatted (numbers in digits; in English, case and punctuation) or plain",
     "formatted, plain"},
    // A lower value gives more errors in the first pass; a higher one only takes more time.
    {"beam_threshold", &Options::beam_threshold, OptionType::kNumber, '(', 0, 100, 11,
     "nats below the best hypothesis at which another one is dropped"},
    {"rescore_ctc_weight", &Options::rescore_ctc_weight, OptionType::kNumber, '[', 0, 1, 0.7,
     "weight of the first pass in rescoring; the decoder's weight is the rest", "", true},
    {"joint_ctc_weight", &Options::joint_ctc_weight, OptionType::kNumber, '[', 0, 1, 0.3,
     "weight of CTC in search joint; the decoder's weight is the rest"},
    {"lm_weight", &Options::lm_weight, OptionType::kNumber, '[', 0, 10, 0.95,
     "weight of the language model's log-probabilities", "", true},
    {"lm_word_bonus", &Options::lm_word_bonus, OptionType::kNumber, '[', -20, 20, -2.4,
     "added for each word if there is a language model", "", true},
    {"lm_oov_penalty", &Options::lm_oov_penalty, OptionType::kNumber, '[', 0, 100, 8,
     "subtracted for each word outside the vocabulary of the language model", "", true},
    {"lm_prior_weight", &Options::lm_prior_weight, OptionType::kNumber, '[', 0, 2, 0.7,
     "weight of the bigram log-probabilities of tokens or phones, which are subtracted", "", true},
    {"hotword_boost", &Options::hotword_boost, OptionType::kNumber, '(', 0, 20, 0.75,
     "bonus in nats for each letter of a hotword"},
    {"unknown_cost", &Options::unknown_cost, OptionType::kNumber, '(', 0, 100, 1.5,
     "with phrases, cost in nats for each phone or letter that becomes [unk]"},
    {"silence_after_speech_s", &Options::silence_after_speech_s, OptionType::kNumber, '(', 0, kInfinity, 2,
     "an utterance ends after this much silence at the latest, earlier if the sentence sounds complete; inf: never"},
    {"min_silence_after_speech_s", &Options::min_silence_after_speech_s, OptionType::kNumber, '(', 0, kInfinity,
     0.5, "shortest silence before an utterance ends, at most silence_after_speech_s; if equal, a fixed timeout"},
    {"silence_without_speech_s", &Options::silence_without_speech_s, OptionType::kNumber, '(', 0, kInfinity, 5,
     "silence before an utterance without any words ends"},
    // Limits the memory of a stream; the endpointer may exceed it up to 1.5 times.
    {"max_utterance_s", &Options::max_utterance_s, OptionType::kNumber, '(', 0, 120, 20,
     "a longer utterance is split at its next pause, or between two words"},
    {"max_alternatives", &Options::max_alternatives, OptionType::kInteger, '[', 0, 20, 0,
     "maximum number of other hypotheses in a final, most likely first; search greedy has none"},
    {"commands", &Options::commands, OptionType::kFlag, '[', 0, 1, 0,
     "obey spoken commands of dictation: comma, new line, all caps, scratch that, ..."},
    {"spelling", &Options::spelling, OptionType::kChoice, '[', 0, 2, kAmerican,
     "spelling of formatted English text: american (color), british (colour), or mixed (as recognized)",
     "american, british, mixed"},
    list_row("hotwords", &Options::hotwords,
             "expected words and phrases, as they should be written, for the beam searches; after =, words that sound "
             "like it (Nguyen = win, new yen); after a colon or tab, its own hotword_boost"),
    list_row("phrases", &Options::phrases,
             "a grammar that replaces free speech, such as voice commands: other speech becomes [unk]; takes no "
             "hotwords, and the language model only pronounces the words"),
    list_row("mask", &Options::mask, "words and phrases to hide: their letters become stars"),
    list_row("replace", &Options::replace,
             "replacements of words and phrases, applied last: my address -> 12 Main Street"),
    list_row("own_commands", &Options::own_commands,
             "your own spoken commands, such as next item -> new line; a list turns commands on"),
};

constexpr std::size_t kNumOptions = std::size(kOptions);

constexpr std::size_t index_of_option(std::string_view name) {  // kNumOptions if there is none
  std::size_t index = 0;
  while (index < kNumOptions && name != kOptions[index].name) ++index;
  return index;
}

constexpr const Option* find_option(std::string_view name) {  // nullptr if there is none
  const std::size_t index = index_of_option(name);
  return index < kNumOptions ? &kOptions[index] : nullptr;
}

// The error for a name that is not in the table; it lists those that are.
std::invalid_argument no_option(std::string_view name);

// Does not test a pointer, which GCC's undefined-behavior sanitizer does not accept in a constant.
constexpr const Option& option(std::string_view name) {
  const std::size_t index = index_of_option(name);
  return index < kNumOptions ? kOptions[index] : throw no_option(name);
}

inline constexpr std::int32_t kBeamSize = static_cast<std::int32_t>(option("beam_size").default_value);
inline constexpr float kHotwordBoost = static_cast<float>(option("hotword_boost").default_value);
inline constexpr float kUnknownCost = static_cast<float>(option("unknown_cost").default_value);

using OptionValue = std::variant<bool, double, std::string_view>;  // of a flag, of a number, of a choice or list

// Errors are std::invalid_argument with the option, the value and the allowed values.
void set(Options& options, std::string_view name, const OptionValue& value);
// Sets the default, which may be none, see `is_unset`.
void reset(Options& options, const Option& option);
// Parses `text` as a value of this option: a number, "true" or "false", a choice, a list.
OptionValue parse(const Option& option, std::string_view text);
// The view of a list is valid as long as the options.
OptionValue get(const Options& options, const Option& option);
// Whether the option has the model file's value, or is a list that is not given.
bool is_unset(const Options& options, const Option& option);
void check(const Options& options);  // of numbers and choices
// A model file's values for such options; sizes in encoder frames.
struct ModelDefaults {
  std::int64_t chunk_size, left_context;
  double rescore_ctc_weight;
  std::array<double, 4> lm_weights;  // of kLmOptions
};
inline constexpr std::array<const char*, 4> kLmOptions{"lm_weight", "lm_word_bonus", "lm_oov_penalty",
                                                       "lm_prior_weight"};
Options resolved(Options options, const ModelDefaults& defaults);
Options resolved(Options options);  // with the values of the table

std::vector<std::string_view> choices(const Option& option);
// The allowed values, as "a whole number in [1, 1024]".
std::string allowed(const Option& option);
std::string interval(const Option& option);  // "(0, 20]"
bool is_allowed(const Option& option, double value);
void check_option(std::string_view name, double value);
// The default value; for a choice its name; for a list "", which stands for none.
OptionValue default_of(const Option& option);
// The shortest decimal number that is read as this one, with a point in every locale; "inf".
std::string number_text(double number);
// The value as `parse` reads it.
std::string to_text(const OptionValue& value);

}  // namespace asr_stream
