// Constants shared by all runtimes: the front end and the tensors of a model file. Python reads them from asr._core,
// JavaScript from the WebAssembly module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace asr_stream {

// Audio and frames. frontend/fbank.h defines the filterbank, metadata.cc its entries in a model file.
inline constexpr std::int32_t kSampleRate = 16000;     // Hz, after the resampler
inline constexpr std::int32_t kMinSampleRate = 1000;   // Hz, of audio that is accepted
inline constexpr std::int32_t kMaxSampleRate = 768000;
inline constexpr std::int64_t kFrameShift = 160;       // samples, 10 ms, of a feature frame
inline constexpr std::int64_t kFrameLength = 400;      // samples, 25 ms, of a frame's window, centered in its shift
inline constexpr std::int64_t kFrameReach = (kFrameShift + kFrameLength) / 2;  // from a shift's start to a window's end
inline constexpr std::int64_t kNumBins = 80;
inline constexpr double kLowFreq = 20.0, kHighFreq = 7600.0;  // Hz, of the filters
inline constexpr double kPreemphasis = 0.97;
inline constexpr std::int64_t kSubsampling = 4;        // feature frames per encoder frame
inline constexpr std::int64_t kFeatureOverlap = 3;     // feature frames that a chunk shares with the next one
inline constexpr std::int64_t kEncoderFrame = kSubsampling * kFrameShift;  // samples
inline constexpr std::int32_t kEncoderFrameMs = kEncoderFrame * 1000 / kSampleRate;
inline constexpr double kEncoderFrameS = kEncoderFrameMs / 1000.0;
// In samples, 0.3 s: silence that follows the end of the audio, so that the last word is recognized like one before a
// pause. It ends no utterance, and times end with the audio.
inline constexpr std::size_t kEndSilence = 4800;

// Seconds at a position in a stream, in samples of kSampleRate. Times are computed from whole samples, so that a time
// reached in two ways is the same number.
inline double seconds(std::int64_t position) { return static_cast<double>(position) / kSampleRate; }

// Tokens.
inline constexpr std::string_view kWordBoundary = "\xE2\x96\x81";  // "▁", U+2581
inline constexpr std::int32_t kBlankId = 0;   // of CTC
inline constexpr std::int32_t kUnkId = 1;     // a character outside the model's vocabulary
inline constexpr std::int32_t kSosEosId = 2;  // sentence start and end, for the decoder; none of the three is text
// Whether a token begins a word, or separates two.
constexpr bool begins_word(std::string_view token) { return token.substr(0, kWordBoundary.size()) == kWordBoundary; }
inline constexpr std::size_t kMaxPhones = 127;

// Tensors of a model file, in order. The encoder's are followed by its states (see StateTensor).
inline constexpr const char* kEncoderInputs[] = {"x", "num_valid"};
inline constexpr const char* kEncoderOutputs[] = {"log_probs", "encoder_out"};
inline constexpr char kPhoneOutput[] = "phone_log_probs";  // additional, last output of a model with phones
inline constexpr int kFormatVersion = 1;  // of a model file's metadata

// The file of an attention decoder; its tensors, in order.
inline constexpr char kDecoderType[] = "asr_stream_decoder";  // model_type in its metadata
inline constexpr int kDecoderVersion = 1;                     // format_version
inline constexpr const char* kDecoderInputs[] = {"tokens", "token_lengths", "encoder_out"};
inline constexpr const char* kDecoderOutputs[] = {"scores"};
// Additional input and output of a step, which also has the states. A run without them begins a sentence.
inline constexpr char kDecoderStepInput[] = "previous";
inline constexpr char kDecoderStepOutput[] = "log_probs";

// The file of a punctuation network; its tensors, in order.
inline constexpr char kPunctuationType[] = "asr_stream_punctuation";
inline constexpr int kPunctuationVersion = 1;
inline constexpr const char* kPunctuationInputs[] = {"features", "pauses", "num_units"};
inline constexpr const char* kPunctuationOutputs[] = {"mark_probs", "case_probs"};

// The file of a neural language model; its tensors, in order.
inline constexpr char kNeuralLmType[] = "asr_stream_neural_lm";
inline constexpr int kNeuralLmVersion = 1;
inline constexpr const char* kNeuralLmInputs[] = {"pieces", "parents", "depths", "ends"};
inline constexpr const char* kNeuralLmOutputs[] = {"log_probs"};

}  // namespace asr_stream
