// The options of recognition: one table, from which everything else is generated. Python, C and JavaScript set an
// option by its name; the command line, its help and the docs loop over the rows.
//
// A new option is a field at the end of asr_options, a row here, and its use; then `python scripts/write_options.py`.
// Assets of recognition (model, language model, hotwords, ...) are not options.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "contract.h"
#include "include/asr_stream/options.h"

namespace asr_stream {

enum class OptionType {
  kFlag,
  kChoice,        // the number of one of `choices`, from 0
  kInteger,
  kMilliseconds,  // an integer, a multiple of an encoder frame
  kNumber,
};

struct Option {
  const char* name;  // in Python, C, on the command line (with dashes) and in JavaScript (camelCase)
  std::variant<std::int32_t asr_options::*, double asr_options::*> field;
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

// The weights and costs are tuned for the bundled models.
inline constexpr Option kOptions[] = {
    {"chunk_ms", &asr_options::chunk_ms, OptionType::kMilliseconds, '[', kEncoderFrameMs, 5120, 640,
     "audio per step; text appears once per chunk", "", true},
    {"left_context_ms", &asr_options::left_context_ms, OptionType::kMilliseconds, '[', 0, 20480, 2560,
     "audio before the chunk that the encoder attends to", "", true},
    {"search", &asr_options::search, OptionType::kChoice, '[', 0, 3, ASR_SEARCH_RESCORE,
     "greedy, beam (CTC prefix beam search), rescore (beam; the attention decoder rescores finals of a search over "
     "letters), or joint (beam; finals come from a search by the attention decoder and CTC, without a language model)",
     "greedy, beam, rescore, joint"},
    {"second_pass", &asr_options::second_pass, OptionType::kFlag, '[', 0, 1, 1,
     "encode each finished utterance a second time, which corrects its final text"},
    {"beam_size", &asr_options::beam_size, OptionType::kInteger, '[', 1, 1024, 256,
     "hypotheses kept by the beam search; the finals of search joint come from 8"},
    {"num_rescored", &asr_options::num_rescored, OptionType::kInteger, '[', 1, 1024, 4,
     "hypotheses of a search over letters that the attention decoder rescores; more of them delay finals"},
    {"text", &asr_options::text, OptionType::kChoice, '[', 0, 1, ASR_TEXT_FORMATTED,
     "how words are shown: formatted (numbers in digits; in English, case and punctuation) or plain",
     "formatted, plain"},
    // A lower value gives more errors in the first pass; a higher one only takes more time.
    {"beam_threshold", &asr_options::beam_threshold, OptionType::kNumber, '(', 0, 100, 11,
     "nats below the best hypothesis at which another one is dropped"},
    {"rescore_ctc_weight", &asr_options::rescore_ctc_weight, OptionType::kNumber, '[', 0, 1, 0.7,
     "weight of the first pass in rescoring; the decoder's weight is the rest", "", true},
    {"joint_ctc_weight", &asr_options::joint_ctc_weight, OptionType::kNumber, '[', 0, 1, 0.3,
     "weight of CTC in search joint; the decoder's weight is the rest"},
    {"lm_weight", &asr_options::lm_weight, OptionType::kNumber, '[', 0, 10, 0.95,
     "weight of the language model's log-probabilities", "", true},
    {"lm_word_bonus", &asr_options::lm_word_bonus, OptionType::kNumber, '[', -20, 20, -2.4,
     "added for each word if there is a language model", "", true},
    {"lm_oov_penalty", &asr_options::lm_oov_penalty, OptionType::kNumber, '[', 0, 100, 8,
     "subtracted for each word outside the vocabulary of the language model", "", true},
    {"lm_prior_weight", &asr_options::lm_prior_weight, OptionType::kNumber, '[', 0, 2, 0.7,
     "weight of the bigram log-probabilities of tokens or phones, which are subtracted", "", true},
    {"hotword_boost", &asr_options::hotword_boost, OptionType::kNumber, '(', 0, 20, 0.75,
     "bonus in nats for each letter of a hotword"},
    {"unknown_cost", &asr_options::unknown_cost, OptionType::kNumber, '(', 0, 100, 1.5,
     "with phrases, cost in nats for each phone or letter that becomes [unk]"},
    {"silence_after_speech_s", &asr_options::silence_after_speech_s, OptionType::kNumber, '(', 0, kInfinity, 2,
     "an utterance ends after this much silence at the latest, earlier if the sentence sounds complete; inf: never"},
    {"min_silence_after_speech_s", &asr_options::min_silence_after_speech_s, OptionType::kNumber, '(', 0, kInfinity,
     0.5, "shortest silence before an utterance ends, at most silence_after_speech_s; if equal, a fixed timeout"},
    {"silence_without_speech_s", &asr_options::silence_without_speech_s, OptionType::kNumber, '(', 0, kInfinity, 5,
     "silence before an utterance without any words ends"},
    // Limits the memory of a stream; the endpointer may exceed it up to 1.5 times.
    {"max_utterance_s", &asr_options::max_utterance_s, OptionType::kNumber, '(', 0, 120, 20,
     "a longer utterance is split at its next pause, or between two words"},
    {"max_alternatives", &asr_options::max_alternatives, OptionType::kInteger, '[', 0, 20, 0,
     "maximum number of other hypotheses in a final, most likely first; search greedy has none"},
    {"commands", &asr_options::commands, OptionType::kFlag, '[', 0, 1, 0,
     "obey spoken commands of dictation: comma, new line, all caps, scratch that, ..."},
    {"spelling", &asr_options::spelling, OptionType::kChoice, '[', 0, 2, ASR_SPELLING_AMERICAN,
     "spelling of formatted English text: american (color), british (colour), or mixed (as recognized)",
     "american, british, mixed"},
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

// Values for all options. A new one has the defaults.
struct Options : asr_options {
  Options();
};

using OptionValue = std::variant<bool, double, std::string_view>;  // of a flag, of a number, of a choice

// Errors are std::invalid_argument with the option, the value and the allowed values.
void set(asr_options& options, std::string_view name, const OptionValue& value);
// Parses `text` as a value of this option: a number, "true" or "false", a choice.
OptionValue parse(const Option& option, std::string_view text);
OptionValue get(const asr_options& options, const Option& option);
// Whether the option has the model file's value.
bool is_unset(const asr_options& options, const Option& option);
std::size_t offset_of(const Option& option);  // in asr_options, in bytes
void check(const asr_options& options);
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
// The default value; for a choice its name.
OptionValue default_of(const Option& option);

}  // namespace asr_stream
