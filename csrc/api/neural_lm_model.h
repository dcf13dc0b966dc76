// An open neural language model.
//
// The counterpart of asr/runtime/neural_lm.py.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/onnxruntime.h"
#include "search/neural_lm.h"

namespace asr_stream {

// Immutable and thread-safe.
class NeuralLmModel {
 public:
  // onnx: the bytes of the file `name`, needed only during the call. Throws DamagedFileError, OnnxRuntimeError.
  NeuralLmModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads);

  std::vector<float> score(const PieceTree& tree) const;  // (num_nodes,)

  const std::shared_ptr<const NeuralLmMetadata>& metadata() const noexcept { return metadata_; }

 private:
  const OnnxRuntime& runtime_;
  std::shared_ptr<const NeuralLmMetadata> metadata_;
  Session session_;
};

}  // namespace asr_stream
