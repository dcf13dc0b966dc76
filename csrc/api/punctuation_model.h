// An open punctuation network.
//
// The counterpart of asr/runtime/punctuation.py.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/network_file.h"
#include "text/punctuation.h"

namespace asr_stream {

class PunctuationModel : public NetworkFile<PunctuationMetadata> {
 public:
  PunctuationModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads);

  struct Answer {
    std::vector<float> mark_probs;  // (num_units, kNumMarks)
    std::vector<float> case_probs;  // (num_units, kNumCases)
  };
  Answer run(const PunctuationUnits& units) const;
};

}  // namespace asr_stream
