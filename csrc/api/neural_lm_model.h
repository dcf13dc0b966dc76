// An open neural language model.
//
// The counterpart of asr/runtime/neural_lm.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/network_file.h"
#include "search/neural_lm.h"

namespace asr_stream {

class NeuralLmModel : public NetworkFile<NeuralLmMetadata> {
 public:
  NeuralLmModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads);

  std::vector<float> score(const PieceTree& tree) const;  // (num_nodes,)
};

}  // namespace asr_stream
