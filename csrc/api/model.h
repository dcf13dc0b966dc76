// An open model file: the step function, the decoder's scores and steps, and the language models next to it.
//
// The counterpart of asr/runtime/onnx_model.py. It holds only weights; a stream passes in its cache.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/lm_fusion.h"
#include "metadata.h"
#include "options.h"
#include "api/networks.h"
#include "api/onnxruntime.h"
#include "segment.h"

namespace asr_stream {

struct ModelOptions {
  std::string onnxruntime_path;
  std::string lm;       // bytes of a language model; empty if none
  std::string lm_name;  // for errors
  std::string punctuation, punctuation_name;  // the same for the punctuation network
  std::string neural_lm, neural_lm_name;      // the same for the neural language model
  std::int32_t num_threads = 1;
  std::function<void(bool is_error, const char* text)> log;
};

// The state of a stream: one tensor for each state of the model. A value type.
using Cache = std::vector<Tensor>;

// State of the decoder between the steps of an utterance.
struct DecoderCache {
  std::int64_t num_hypotheses = 1;    // N
  std::int64_t num_tokens = 0;        // P, of each hypothesis
  Tensor keys, values;                // (N, layers, P, dim) of the last step
  Tensor memory_keys, memory_values;  // (1, layers, T, dim), of the encoder's output
};

// Immutable and thread-safe.
class Model {
 public:
  // onnx: the bytes of the file `name`, needed only during the call. Throws DamagedFileError, OnnxRuntimeError, and
  // std::invalid_argument for an invalid option.
  Model(std::string_view onnx, const std::string& name, ModelOptions options);

  Cache new_cache(std::int64_t left_context) const;  // before the first chunk

  // Encodes one chunk and updates `cache`. `outputs` owns log_probs (c, vocab_size), encoder_out (c, dim) and, for a
  // model with phones, phone_log_probs (c, num_phone_tokens).
  struct Step {
    std::vector<Tensor> outputs;
    Rows log_probs, encoder_out, phone_log_probs;
  };
  Step step(const EncoderStep& step, Cache& cache) const;

  // Log-probabilities (N,) of complete sentences including their end, from the decoder.
  std::vector<float> score(const DecoderScoring& scoring) const;

  // One step of the decoder; updates `cache`. `outputs` owns log_probs (N, vocab_size).
  struct Decoded {
    std::vector<Tensor> outputs;
    Rows log_probs;
  };
  Decoded decode(const DecoderStep& step, DecoderCache& cache) const;

  // Opens the decoder, before the first `score` or, by_steps, `decode`. Throws std::invalid_argument if the model has
  // none.
  void open_decoder(bool by_steps) const;

  const PunctuationModel* punctuation() const noexcept { return punctuation_.get(); }  // may be null
  const NgramLm* lm() const noexcept { return lm_.get(); }
  const NeuralLmModel* neural_lm() const noexcept { return neural_lm_.get(); }

  const ModelMetadata& metadata() const noexcept { return metadata_; }
  const std::map<std::string, std::string>& properties() const noexcept { return properties_; }
  // Fusion with the language model, unless !use_lm, and with any hotwords; null if there are neither.
  std::shared_ptr<const LmFusion> fusion(const Options& options, bool use_lm,
                                         const std::optional<std::string>& hotwords) const;
  void log(bool is_error, const std::string& text) const;

 private:
  void check_shapes() const;

  ModelOptions options_;
  std::string name_;
  std::map<std::string, std::string> properties_;
  ModelMetadata metadata_;
  std::shared_ptr<const NgramLm> lm_;  // or null
  mutable std::mutex fusion_mutex_;
  mutable LmFusionOptions fusion_weights_;  // weights of `fusion_`, the most recent fusion without hotwords, or null
  mutable std::shared_ptr<const LmFusion> fusion_;
  const OnnxRuntime& runtime_;
  Session encoder_;
  std::unique_ptr<const PunctuationModel> punctuation_;
  std::unique_ptr<const NeuralLmModel> neural_lm_;
  mutable std::mutex decoder_mutex_;
  mutable std::unique_ptr<const Session> decoder_;  // set once
};

// Reads all bytes of a file. Throws FileError.
std::string read_file(const std::string& path);

}  // namespace asr_stream
