// A model file, opened: the step function, the decoder's scores, and the language model beside them.
//
// Imitates asr/runtime/onnx_model.py. It holds weights only; what a stream remembers is the cache it passes in.
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
#include "api/neural_lm_model.h"
#include "api/onnxruntime.h"
#include "api/punctuation_model.h"
#include "segment.h"

namespace asr_stream {

struct ModelOptions {
  std::string onnxruntime_path;
  std::string lm;       // bytes of a language model; empty: none
  std::string lm_name;  // for errors
  std::string punctuation, punctuation_name;  // the same of the network for case and punctuation
  std::string neural_lm, neural_lm_name;      // and of the neural language model
  std::int32_t num_threads = 1;
  std::function<void(bool is_error, const char* text)> log;
};

// Everything a stream remembers of its past: a tensor for each of the model's states. A value.
using Cache = std::vector<Tensor>;

// Immutable; any number of threads may call it at once.
class Model {
 public:
  // onnx: the bytes of a file called `name`, needed during the call only. DamagedFileError, OnnxRuntimeError;
  // std::invalid_argument for an option.
  Model(std::string_view onnx, const std::string& name, ModelOptions options);

  Cache new_cache(std::int64_t left_context) const;  // before the first chunk

  // One chunk; `cache` moves on. The result: log_probs (c, vocab_size), encoder_out (c, dim) and, of a model with
  // phones, phone_log_probs (c, num_phone_tokens), in the memory of `outputs`.
  struct Step {
    std::vector<Tensor> outputs;
    Rows log_probs, encoder_out, phone_log_probs;
  };
  Step step(const EncoderStep& step, Cache& cache) const;

  // Log-probabilities (N,) that the decoder gives to whole sentences, their end included.
  std::vector<float> score(const DecoderScoring& scoring) const;

  // Opens the decoder, which greedy and beam search never need. std::invalid_argument where the model has none.
  void open_decoder() const;

  const PunctuationModel* punctuation() const noexcept { return punctuation_.get(); }  // null: none
  const NeuralLmModel* neural_lm() const noexcept { return neural_lm_.get(); }

  const ModelMetadata& metadata() const noexcept { return metadata_; }
  const std::map<std::string, std::string>& properties() const noexcept { return properties_; }
  // With the language model, unless !use_lm, and with hotwords, if any; null: neither.
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
  mutable LmFusionOptions fusion_weights_;  // of `fusion_`, the last one without hotwords, or null
  mutable std::shared_ptr<const LmFusion> fusion_;
  const OnnxRuntime& runtime_;
  Session encoder_;
  std::unique_ptr<const PunctuationModel> punctuation_;
  std::unique_ptr<const NeuralLmModel> neural_lm_;
  mutable std::mutex decoder_mutex_;
  mutable std::unique_ptr<const Session> decoder_;
};

// All bytes of a file. FileError.
std::string read_file(const std::string& path);

}  // namespace asr_stream
