// An open network that has a file of its own, next to the model's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "api/failure.h"
#include "api/onnxruntime.h"
#include "onnx_file.h"

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

}  // namespace asr_stream
