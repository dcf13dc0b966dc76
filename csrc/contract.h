// What every runtime agrees on, stated once: the front end, the options with their ranges and defaults, the tensors of
// a model file. Python reads it from asr._core, JavaScript from the WebAssembly module; tests/test_defaults.py holds
// what cannot read it (command line, header, types, docs) to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace asr_stream {

// Audio and frames. The rest of the filterbank is in frontend/fbank.h.
inline constexpr std::int32_t kSampleRate = 16000;     // Hz, behind the resampler
inline constexpr std::int32_t kMinSampleRate = 1000;   // Hz, of audio that is accepted
inline constexpr std::int32_t kMaxSampleRate = 768000;
inline constexpr std::int64_t kFrameShift = 160;       // samples, 10 ms, of a feature frame
inline constexpr std::int64_t kFrameReach = 280;       // samples from where its 10 ms begin to its window's end
inline constexpr std::int64_t kNumBins = 80;
inline constexpr std::int64_t kSubsampling = 4;        // feature frames per encoder frame
inline constexpr std::int64_t kFeatureOverlap = 3;     // of a chunk with the next one, in feature frames
inline constexpr std::int32_t kEncoderFrameMs = 40;
inline constexpr double kEncoderFrameS = 0.04;

// Tokens.
inline constexpr std::string_view kWordBoundary = "\xE2\x96\x81";  // "▁", U+2581
inline constexpr std::int32_t kBlankId = 0;   // of CTC
inline constexpr std::int32_t kUnkId = 1;     // a letter that the model does not have
inline constexpr std::int32_t kSosEosId = 2;  // of the decoder. None of the three is in any text.
inline constexpr std::size_t kMaxPhones = 127;

// Tensors of a model file, in their order.
inline constexpr const char* kEncoderInputs[] = {"x", "num_valid", "key_cache", "value_cache", "num_frames"};
inline constexpr const char* kEncoderOutputs[] = {"log_probs", "encoder_out", "new_key_cache", "new_value_cache",
                                                  "new_num_frames"};
inline constexpr char kPhoneOutput[] = "phone_log_probs";  // one more output of a model with phones, the last one
inline constexpr const char* kDecoderInputs[] = {"tokens", "token_lengths", "encoder_out"};
inline constexpr const char* kDecoderOutputs[] = {"scores"};
// Of files since version 3: what a step of the decoder takes and gives beside. Without that input a sentence begins.
inline constexpr const char* kDecoderPast[] = {"previous", "key_cache", "value_cache", "memory_keys", "memory_values"};
inline constexpr const char* kDecoderStepOutputs[] = {"log_probs", "new_key_cache", "new_value_cache",
                                                      "new_memory_keys", "new_memory_values"};
inline constexpr int kFormatVersion = 3;  // of a model file's metadata; older ones are read

// The file of a network for punctuation, its tensors in their order.
inline constexpr char kPunctuationType[] = "asr_stream_punctuation";  // model_type in its metadata
inline constexpr int kPunctuationVersion = 1;                         // format_version
inline constexpr const char* kPunctuationInputs[] = {"features", "pauses", "num_units"};
inline constexpr const char* kPunctuationOutputs[] = {"mark_probs", "case_probs"};

// The file of a neural language model, its tensors in their order.
inline constexpr char kNeuralLmType[] = "asr_stream_neural_lm";
inline constexpr int kNeuralLmVersion = 1;
inline constexpr const char* kNeuralLmInputs[] = {"pieces", "parents", "depths", "mask"};
inline constexpr const char* kNeuralLmOutputs[] = {"log_probs"};

// The default text of events: formatted, with case, punctuation and numbers in digits, or plain words.
inline constexpr bool kFormattedText = true;

// The options, under their names in Python, C, on the command line (with dashes) and in JavaScript (camelCase).
struct OptionRange {
  const char* name;
  double low;
  bool with_low;  // whether `low` itself is allowed
  double high;
  double fallback;  // of chunk_ms and left_context_ms: of a file without a default
};

inline constexpr OptionRange kOptionRanges[] = {
    {"chunk_ms", kEncoderFrameMs, true, 5120, 640},  // a multiple of an encoder frame, as left_context_ms is
    {"left_context_ms", 0, true, 20480, 2560},
    {"beam_size", 1, true, 1024, 256},
    {"silence_after_speech_s", 0, false, std::numeric_limits<double>::infinity(), 2.0},
    {"min_silence_after_speech_s", 0, false, std::numeric_limits<double>::infinity(), 0.5},
    {"silence_without_speech_s", 0, false, std::numeric_limits<double>::infinity(), 5},
    {"max_utterance_s", 0, false, 120, 20},  // bounds what a stream keeps; the endpointer may go to 1.5 times
    {"hotword_boost", 0, false, 20, 0.75},   // this and what follows is tuned for the bundled models
    {"unknown_cost", 0, false, 100, 1.5},
    {"lm_weight", 0, true, 10, 0.9},
    {"lm_word_bonus", -20, true, 20, -2.4},
    {"lm_oov_penalty", 0, true, 100, 8},
    {"lm_prior_weight", 0, true, 2, 0.7},
    {"rescore_ctc_weight", 0, true, 1, 0.7},
};

constexpr const OptionRange& option(std::string_view name) {
  for (const OptionRange& range : kOptionRanges) {
    if (name == range.name) return range;
  }
  throw std::logic_error("there is no such option");
}

bool is_allowed(const OptionRange& range, double value);
// As "(0, 20]".
std::string interval(const OptionRange& range);
// Throws std::invalid_argument, which names the option and its range.
void check_option(std::string_view name, double value);

inline constexpr std::int32_t kBeamSize = static_cast<std::int32_t>(option("beam_size").fallback);
inline constexpr float kHotwordBoost = static_cast<float>(option("hotword_boost").fallback);
inline constexpr float kUnknownCost = static_cast<float>(option("unknown_cost").fallback);

}  // namespace asr_stream
