// Open networks that have files of their own, next to the model's: for punctuation, and a neural language model.
//
// The counterpart of asr/runtime/punctuation.py and asr/runtime/neural_lm.py.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/failure.h"
#include "api/onnxruntime.h"
#include "onnx_file.h"
#include "search/neural_lm.h"
#include "text/punctuation.h"

namespace asr_stream {

// Immutable and thread-safe.
template <typename Metadata>
class NetworkFile {
 public:
  // onnx: the bytes of the file `name`, needed only during the call. Throws DamagedFileError, OnnxRuntimeError.
  template <std::size_t num_inputs, std::size_t num_outputs>
  NetworkFile(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads,
              const char* const (&inputs)[num_inputs], const char* const (&outputs)[num_outputs])
      : runtime_(runtime),
        metadata_(undamaged(name, "", [onnx] { return std::make_shared<const Metadata>(read_onnx_properties(onnx)); })),
        session_(runtime, onnx, name, num_threads, {inputs, inputs + num_inputs}, {outputs, outputs + num_outputs}) {}

  const std::shared_ptr<const Metadata>& metadata() const noexcept { return metadata_; }

 protected:
  const OnnxRuntime& runtime_;
  std::shared_ptr<const Metadata> metadata_;
  Session session_;
};

class PunctuationModel : public NetworkFile<PunctuationMetadata> {
 public:
  PunctuationModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads);

  struct Answer {
    std::vector<float> mark_probs;  // (num_units, kNumMarks)
    std::vector<float> case_probs;  // (num_units, kNumCases)
  };
  Answer run(const PunctuationUnits& units) const;
};

class NeuralLmModel : public NetworkFile<NeuralLmMetadata> {
 public:
  NeuralLmModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads);

  std::vector<float> score(const PieceTree& tree) const;  // (num_nodes,)
};

}  // namespace asr_stream
