// What can go wrong outside the core, each kind with its own status at the C API. Texts are sentences for people.
#pragma once

#include <stdexcept>

namespace asr_stream {

struct FileError : std::runtime_error {  // a file that cannot be read
  using std::runtime_error::runtime_error;
};

struct DamagedFileError : std::runtime_error {  // a file that is no model or language model
  using std::runtime_error::runtime_error;
};

struct OnnxRuntimeError : std::runtime_error {  // ONNX Runtime is missing, or too old
  using std::runtime_error::runtime_error;
};

}  // namespace asr_stream
