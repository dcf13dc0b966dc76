// One run of a network: what a segment or a stream asks for, and the answer of the runtime.
//
// A runtime has an open graph for each network and knows nothing else about it. It runs the graph of that name on the
// inputs, and on the state if there is one, and passes the outputs on. What the numbers mean is known only here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace asr_stream {

enum class Network { kEncoder, kDecoder, kPunctuation, kNeuralLm };

struct NetworkNames {
  const char* name;  // of the graph in a runtime
  const char* text;  // in sentences
};
inline constexpr NetworkNames kNetworks[] = {{"encoder", "the encoder"},
                                             {"decoder", "the decoder"},
                                             {"punctuation", "the network for case and punctuation"},
                                             {"neural_lm", "the neural language model"}};
inline constexpr std::size_t kNumNetworks = sizeof kNetworks / sizeof kNetworks[0];
constexpr const NetworkNames& names(Network network) { return kNetworks[static_cast<std::size_t>(network)]; }

using Shape = std::vector<std::int64_t>;

struct Input {
  const char* name;
  Shape shape;
  std::variant<std::vector<float>, std::vector<std::int64_t>> data;
};

struct WantedOutput {
  const char* name;
  Shape shape;  // -1: any size
};

// The tensors that a network carries from one run to the next, see StateTensor. They stay with the runtime, in a slot.
struct StateUse {
  enum class Keep { kStays, kForNextWork, kNot };

  std::size_t slot;           // below kNumSlots
  bool begins;                // with zeros, not with the result of the last run
  std::int64_t left_context;  // size "C" of these zeros
  Keep keep;                  // kForNextWork: until the next work, unless that has the same slot
  std::vector<std::int64_t> parents;  // row i continues this row of the last run; empty: the same row
};
inline constexpr std::size_t kNumPasses = 3;  // over an utterance in the second pass
inline constexpr std::size_t kStreamSlot = 0, kFirstPassSlot = 1, kDecoderSlot = kFirstPassSlot + kNumPasses;
inline constexpr std::size_t kNumSlots = kDecoderSlot + 1;

struct Work {
  Network network;
  std::vector<Input> inputs;
  std::vector<WantedOutput> outputs;  // float32
  std::optional<StateUse> state = std::nullopt;
  // Whether axis 0 of each tensor is a batch: runs of the same shapes can be computed as one.
  bool has_batch = false;
  // More runs have the same shapes if axis 1 of the first input is padded with zeros to this size. The outputs then
  // have more rows than wanted.
  std::int64_t padded_size = 0;
};

// An output in the caller's memory, float32.
struct Output {
  const float* data;
  Shape shape;
};
using Answer = std::vector<Output>;  // in the order of Work::outputs

// Throws std::invalid_argument unless the answer has the wanted shapes.
void check_shapes(const Work& work, const Answer& answer);

// The matrix of an output: all axes but the last are rows. `data` may be null.
struct Rows {
  const float* data = nullptr;
  std::int64_t num_frames = 0;
  std::int64_t num_columns = 0;
};
Rows rows(const Output& output);
std::vector<float> numbers(const Output& output);

// One run of the encoder over (1, num_frames, 80) features.
struct EncoderStep {
  std::size_t slot;
  bool begins;  // with a new cache
  bool ends;    // the cache is not needed after this run
  std::vector<float> features;  // (num_frames, 80); 4c + 3 frames give c encoder frames
  std::int64_t num_frames;
  std::int64_t num_valid;  // valid feature frames; num_valid / 4 encoder frames of the result are valid
};

struct EncoderSizes {
  std::int64_t vocab_size;
  std::int64_t dim;               // of encoder_out; -1: any
  std::int64_t num_phone_tokens;  // 0: no output for phones
  std::int64_t left_context;      // in encoder frames
};

// Outputs: log_probs (1, c, vocab_size), encoder_out (1, c, dim) and phone_log_probs (1, c, num_phone_tokens).
Work encoder_work(EncoderStep step, const EncoderSizes& sizes);

}  // namespace asr_stream
