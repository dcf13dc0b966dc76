// ONNX Runtime, loaded at run time: tensors, and sessions that run a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/onnxruntime_api.h"
#include "work.h"

namespace asr_stream {

// The library, loaded once and never closed. Immutable and thread-safe.
class OnnxRuntime {
 public:
  // path: the library file. If empty: the file in the environment variable ASR_STREAM_ONNXRUNTIME, or otherwise the
  // usual names. Throws OnnxRuntimeError if there is none or it is too old.
  static const OnnxRuntime& load(const std::string& path);

  const std::string& description() const noexcept { return description_; }  // its version and file
  const ort::Api& api() const noexcept { return *api_; }
  const ort::Env* env() const noexcept { return env_; }
  ort::Allocator* allocator() const noexcept { return allocator_; }
  const ort::MemoryInfo* memory() const noexcept { return memory_; }

  // Throws the error of a status; std::bad_alloc if memory is exhausted, OnnxRuntimeError if this version is too old.
  void check(ort::Status* status) const;

 private:
  OnnxRuntime(const ort::Api* api, std::string description);

  const ort::Api* api_;
  std::string description_;
  ort::Env* env_ = nullptr;
  ort::Allocator* allocator_ = nullptr;
  ort::MemoryInfo* memory_ = nullptr;
};

// An array in ONNX Runtime's memory, or in the caller's. Move-only; empty by default.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const OnnxRuntime& runtime, ort::Value* value)
      : runtime_(&runtime), value_(value, runtime.api().ReleaseValue) {}

  // type: float32 or int64.
  static Tensor zeros(const OnnxRuntime& runtime, ort::ElementType type, const Shape& shape);
  // Must not outlive `input`, whose data is not changed.
  static Tensor of(const OnnxRuntime& runtime, const Input& input);

  // The elements, for as long as the tensor exists. Throws std::runtime_error unless it is float32.
  Output output() const;
  // The elements `rows` of an axis, in this order. Throws std::runtime_error if there are fewer, or if they are neither
  // float32 nor int64.
  Tensor taken(std::size_t axis, const std::vector<std::int64_t>& rows) const;

  const ort::Value* get() const noexcept { return value_.get(); }

 private:
  const OnnxRuntime* runtime_ = nullptr;
  ort::Owned<ort::Value> value_{nullptr, nullptr};
};

// A graph that is ready to run. Immutable and thread-safe.
class Session {
 public:
  // onnx: the bytes of the file. Checks that the graph needs exactly these inputs and that its first outputs are these.
  // Throws DamagedFileError and OnnxRuntimeError with `name`.
  Session(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads,
          const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);

  // The outputs of these names for the inputs of these names; other inputs have default values.
  std::vector<Tensor> run(const std::vector<const char*>& inputs, const std::vector<const Tensor*>& tensors,
                          const std::vector<const char*>& outputs) const;

  // Shapes as declared by the graph, with -1 for dynamic sizes. Input 0 is the first.
  Shape input_shape(std::size_t index) const { return shape(index, true); }
  Shape output_shape(std::size_t index) const { return shape(index, false); }

 private:
  void open(std::string_view onnx, int num_threads);
  std::vector<std::string> names(bool inputs) const;
  Shape shape(std::size_t index, bool input) const;

  const OnnxRuntime& runtime_;
  ort::Owned<ort::Session> session_;
};

}  // namespace asr_stream
