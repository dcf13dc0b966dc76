// An open model file: its networks, and the language models next to it.
//
// The counterpart of asr/runtime/onnx_model.py. It holds only weights; a stream passes in its states.
#pragma once

#include <array>
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
#include "file_bytes.h"
#include "metadata.h"
#include "options.h"
#include "api/onnxruntime.h"
#include "segment_options.h"
#include "text/punctuation.h"

namespace asr_stream {

struct ModelOptions {
  std::string onnxruntime_path;
  FileBytes lm;         // a language model; empty if none
  std::string lm_name;  // for errors
  FileBytes punctuation, neural_lm, decoder;  // the same for the networks
  std::string punctuation_name, neural_lm_name, decoder_name;
  std::int32_t num_threads = 1;
  std::function<void(bool is_error, const char* text)> log;
};

// What a network carries between its runs: a tensor for each of its states.
using State = std::vector<Tensor>;

// Immutable and thread-safe.
class Model {
 public:
  // onnx: the bytes of the file `name`, needed only during the call. Throws DamagedFileError, OnnxRuntimeError, and
  // std::invalid_argument for an invalid option.
  Model(std::string_view onnx, const std::string& name, ModelOptions options);

  // Runs the network of `work` and updates the state of its slot, which may be empty if it begins. Throws
  // std::runtime_error. `tensors` own the numbers of `answer`.
  struct Run {
    std::vector<Tensor> tensors;
    Answer answer;
  };
  Run run(const Work& work, State& state) const;

  // Each may be null.
  const std::shared_ptr<const PunctuationMetadata>& punctuation() const noexcept { return punctuation_; }
  const NgramLm* lm() const noexcept { return lm_.get(); }
  const std::shared_ptr<const NeuralLmMetadata>& neural_lm() const noexcept { return neural_lm_; }
  const std::shared_ptr<const DecoderMetadata>& decoder() const noexcept { return decoder_; }

  const ModelMetadata& metadata() const noexcept { return metadata_; }
  const std::map<std::string, std::string>& properties() const noexcept { return properties_; }
  // See `new_fusion`; the most recent one without hotwords is kept.
  std::shared_ptr<const LmFusion> fusion(const Options& options) const;
  void log(bool is_error, const std::string& text) const;

 private:
  // An open graph, and the tensors that it carries.
  struct Graph {
    std::unique_ptr<const Session> session;
    std::vector<StateTensor> states;
    std::vector<std::string> new_states;  // their outputs
  };

  const Graph& graph(Network network) const { return graphs_[static_cast<std::size_t>(network)]; }
  void open(Network network, std::string_view onnx, const std::string& name, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, std::vector<StateTensor> states = {});
  void warm_up(const Work& work, const std::string& name) const;
  void check_sizes() const;

  ModelOptions options_;
  std::string name_;
  std::map<std::string, std::string> properties_;
  ModelMetadata metadata_;
  std::shared_ptr<const NgramLm> lm_;  // or null
  mutable std::mutex fusion_mutex_;
  mutable LmFusionOptions fusion_weights_;  // weights of `fusion_`, the most recent fusion without hotwords, or null
  mutable std::shared_ptr<const LmFusion> fusion_;
  const OnnxRuntime& runtime_;
  std::shared_ptr<const PunctuationMetadata> punctuation_;
  std::shared_ptr<const NeuralLmMetadata> neural_lm_;
  std::shared_ptr<const DecoderMetadata> decoder_;
  std::array<Graph, kNumNetworks> graphs_;
};

// The bytes of a file, mapped where the system can: nobody must change it in place as long as they are used. Throws
// FileError.
FileBytes open_file(const std::string& path);

}  // namespace asr_stream
