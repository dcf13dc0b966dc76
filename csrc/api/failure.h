// Errors outside the core; each type has its own status in the C API. Their messages are sentences for users.
#pragma once

#include <stdexcept>
#include <string>

namespace asr_stream {

struct FileError : std::runtime_error {  // a file that cannot be read
  using std::runtime_error::runtime_error;
};

struct DamagedFileError : std::runtime_error {  // a file that is not a model or language model
  using std::runtime_error::runtime_error;
};

struct OnnxRuntimeError : std::runtime_error {  // ONNX Runtime is missing, or too old
  using std::runtime_error::runtime_error;
};

// Returns the result of `use` of the file `name`. An `Error` that it throws becomes a DamagedFileError whose message
// begins with the name and `fault`; an OnnxRuntimeError, which is no fault of the file, only gets the name.
template <typename Error = std::invalid_argument, typename Use>
auto undamaged(const std::string& name, const char* fault, Use use) {
  try {
    return use();
  } catch (const OnnxRuntimeError& error) {
    throw OnnxRuntimeError(name + " " + error.what());
  } catch (const Error& error) {
    throw DamagedFileError(name + fault + ": " + error.what());
  }
}

}  // namespace asr_stream
