// An open punctuation network.
//
// The counterpart of asr/runtime/punctuation.py.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/onnxruntime.h"
#include "text/punctuation.h"

namespace asr_stream {

// Immutable and thread-safe.
class PunctuationModel {
 public:
  // onnx: the bytes of the file `name`, needed only during the call. Throws DamagedFileError, OnnxRuntimeError.
  PunctuationModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads);

  struct Answer {
    std::vector<float> mark_probs;  // (num_units, kNumMarks)
    std::vector<float> case_probs;  // (num_units, kNumCases)
  };
  Answer run(const PunctuationUnits& units) const;

  const std::shared_ptr<const PunctuationMetadata>& metadata() const noexcept { return metadata_; }

 private:
  const OnnxRuntime& runtime_;
  std::shared_ptr<const PunctuationMetadata> metadata_;
  Session session_;
};

}  // namespace asr_stream
