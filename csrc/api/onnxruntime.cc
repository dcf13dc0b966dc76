#include "api/onnxruntime.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

#include "api/failure.h"
#include "utf8.h"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <filesystem>
#else
#include <dlfcn.h>
#endif

namespace asr_stream {

namespace {

// The library is never closed: other code in the process may use it, and its own threads may still be running.
const ort::ApiBase* open_library(const std::string& path, std::string& reason) {
  using GetApiBase = const ort::ApiBase*(ASR_ORT_CALL*)();
#if defined(_WIN32)
  const HMODULE library = LoadLibraryW(std::filesystem::u8path(path).c_str());
  if (!library) reason = "error " + std::to_string(GetLastError());
  const auto function = library ? reinterpret_cast<void*>(GetProcAddress(library, "OrtGetApiBase")) : nullptr;
#else
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* message = dlerror();
    reason = message ? message : "it cannot be opened";
  }
  void* function = library ? dlsym(library, "OrtGetApiBase") : nullptr;
#endif
  if (!function) {
    if (library) reason = path + " is not ONNX Runtime: it has no OrtGetApiBase";
    return nullptr;
  }
  return reinterpret_cast<GetApiBase>(function)();
}

// ONNX Runtime writes a device identifier and reports to its maker unless this is set before it starts. A value of the
// user's is kept.
void disable_telemetry() {
#if defined(_WIN32)
  if (!std::getenv("ORT_DISABLE_TELEMETRY")) _putenv_s("ORT_DISABLE_TELEMETRY", "1");
#else
  setenv("ORT_DISABLE_TELEMETRY", "1", 0);
#endif
}

std::vector<std::string> usual_names() {
#if defined(_WIN32)
  return {"onnxruntime.dll"};
#elif defined(__APPLE__)
  return {"libonnxruntime.dylib", "libonnxruntime.1.dylib"};
#else
  return {"libonnxruntime.so.1", "libonnxruntime.so"};
#endif
}

void ASR_ORT_CALL drop_message(void*, ort::LoggingLevel, const char*, const char*, const char*, const char*) {}

// The first line of a message, without the leading source location ("/.../file.cc:12 void name(arguments) ").
std::string reason_in(std::string_view text) {
  text = text.substr(0, text.find_first_of("\r\n"));
  if (text.substr(0, 1) == "/" && text.find(':') < text.find('(')) {
    int depth = 0;
    for (std::size_t i = text.find('('); i < text.size(); ++i) {
      depth += (text[i] == '(') - (text[i] == ')');
      if (depth) continue;
      if (text.substr(i).size() > 2) text.remove_prefix(i + 2);
      break;
    }
  }
  return text.empty() ? "ONNX Runtime failed" : std::string(utf8_prefix(text, 200));
}

std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += (joined.empty() ? "" : ", ") + text;
  return joined.empty() ? "nothing" : joined;
}

}  // namespace

const OnnxRuntime& OnnxRuntime::load(const std::string& path) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, std::unique_ptr<const OnnxRuntime>>;  // outlives every model
  const char* named = std::getenv("ASR_STREAM_ONNXRUNTIME");
  std::vector<std::string> candidates = usual_names();
  if (!path.empty()) {
    candidates = {path};
  } else if (named && *named) {
    candidates = {named};
  }
  const std::lock_guard<std::mutex> lock(mutex);
  disable_telemetry();
  std::string reasons;
  for (const std::string& candidate : candidates) {
    std::unique_ptr<const OnnxRuntime>& runtime = loaded[candidate];
    if (runtime) return *runtime;
    std::string reason;
    const ort::ApiBase* base = open_library(candidate, reason);
    if (base) {
      const std::string version = base->GetVersionString();
      if (const ort::Api* api = base->GetApi(ort::kApiVersion)) {
        runtime.reset(new OnnxRuntime(api, "ONNX Runtime " + version + " from " + candidate));
        return *runtime;
      }
      reason = candidate + " is ONNX Runtime " + version + "; 1.5 or newer is needed";
    }
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  throw OnnxRuntimeError("ONNX Runtime cannot be loaded (" + reasons +
                         "): install it, or name its library file by the setting onnxruntime or by the environment "
                         "variable ASR_STREAM_ONNXRUNTIME");
}

OnnxRuntime::OnnxRuntime(const ort::Api* api, std::string description)
    : api_(api), description_(std::move(description)) {
  // A process has one environment, which is shared. If it is created here, it logs nothing.
  check(api_->CreateEnvWithCustomLogger(&drop_message, nullptr, ort::kLogFatal, "asr_stream", &env_));
  check(api_->GetAllocatorWithDefaultOptions(&allocator_));
  check(api_->CreateCpuMemoryInfo(ort::kDeviceAllocator, ort::kDefaultMemory, &memory_));
}

void OnnxRuntime::check(ort::Status* status) const {
  if (!status) return;
  const ort::Owned<ort::Status> guard(status, api_->ReleaseStatus);
  const char* text = api_->GetErrorMessage(status);
  if (std::strstr(text, "bad_alloc") || std::strstr(text, "Failed to allocate memory")) throw std::bad_alloc();
  const std::string reason = reason_in(text);
  if (reason.find("max supported IR version") != std::string::npos) {
    throw OnnxRuntimeError("needs a newer ONNX Runtime than " + description_ + ": " + reason);
  }
  throw std::runtime_error(reason);
}

Tensor Tensor::zeros(const OnnxRuntime& runtime, ort::ElementType type, const Shape& shape) {
  std::size_t size = type == ort::kFloat ? sizeof(float) : sizeof(std::int64_t);
  for (const std::int64_t length : shape) size *= static_cast<std::size_t>(length);
  ort::Value* value = nullptr;
  runtime.check(
      runtime.api().CreateTensorAsOrtValue(runtime.allocator(), shape.data(), shape.size(), type, &value));
  Tensor tensor(runtime, value);
  void* data = nullptr;
  runtime.check(runtime.api().GetTensorMutableData(value, &data));
  if (size) std::memset(data, 0, size);
  return tensor;
}

Tensor Tensor::of(const OnnxRuntime& runtime, const Input& input) {
  ort::Value* value = nullptr;
  std::visit([&](const auto& data) {
    using T = typename std::decay_t<decltype(data)>::value_type;
    constexpr ort::ElementType type = std::is_same_v<T, float> ? ort::kFloat : ort::kInt64;
    static T nothing{};  // ONNX Runtime takes no null for no elements
    auto* elements = data.empty() ? &nothing : const_cast<T*>(data.data());  // it does not write to inputs
    runtime.check(runtime.api().CreateTensorWithDataAsOrtValue(runtime.memory(), elements, data.size() * sizeof(T),
                                                               input.shape.data(), input.shape.size(), type, &value));
  }, input.data);
  return Tensor(runtime, value);
}

namespace {

struct TensorShape {
  ort::ElementType type;
  Shape shape;
};

TensorShape describe(const OnnxRuntime& runtime, const ort::TensorInfo* info) {
  const ort::Api& api = runtime.api();
  TensorShape found{};
  std::size_t rank = 0;
  runtime.check(api.GetTensorElementType(info, &found.type));
  runtime.check(api.GetDimensionsCount(info, &rank));
  found.shape.resize(rank);
  runtime.check(api.GetDimensions(info, found.shape.data(), rank));
  return found;
}

TensorShape describe(const OnnxRuntime& runtime, const ort::Value* value) {
  ort::TensorInfo* info = nullptr;
  runtime.check(runtime.api().GetTensorTypeAndShape(value, &info));
  const ort::Owned<ort::TensorInfo> guard(info, runtime.api().ReleaseTensorTypeAndShapeInfo);
  return describe(runtime, info);
}

void* elements(const OnnxRuntime& runtime, const ort::Value* value) {
  void* data = nullptr;
  runtime.check(runtime.api().GetTensorMutableData(const_cast<ort::Value*>(value), &data));
  return data;
}

std::size_t product(const Shape& shape, std::size_t from, std::size_t to) {
  std::size_t result = 1;
  for (std::size_t i = from; i < to; ++i) result *= static_cast<std::size_t>(shape[i]);
  return result;
}

}  // namespace

Output Tensor::output() const {
  TensorShape found = describe(*runtime_, get());
  if (found.type != ort::kFloat) throw std::runtime_error("the network gave an output that is not float32");
  return {static_cast<const float*>(elements(*runtime_, get())), std::move(found.shape)};
}

Tensor Tensor::taken(std::size_t axis, const std::vector<std::int64_t>& rows) const {
  const TensorShape found = describe(*runtime_, get());
  if (found.type != ort::kFloat && found.type != ort::kInt64) {
    throw std::runtime_error("the network gave a state that is neither float32 nor int64");
  }
  Shape shape = found.shape;
  shape.at(axis) = static_cast<std::int64_t>(rows.size());
  Tensor result = zeros(*runtime_, found.type, shape);
  const std::size_t element = found.type == ort::kFloat ? sizeof(float) : sizeof(std::int64_t);
  const std::size_t size = element * product(shape, axis + 1, shape.size());
  const std::size_t num_rows = product(found.shape, axis, axis + 1);
  const auto* from = static_cast<const char*>(elements(*runtime_, get()));
  auto* to = static_cast<char*>(elements(*runtime_, result.get()));
  for (std::size_t block = size ? product(shape, 0, axis) : 0; block > 0; --block, from += num_rows * size) {
    for (const std::int64_t row : rows) {
      const auto index = static_cast<std::size_t>(row);
      if (index >= num_rows) throw std::runtime_error("the network gave a state of another size");
      std::memcpy(to, from + index * size, size);
      to += size;
    }
  }
  return result;
}

Session::Session(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name, int num_threads,
                 const std::vector<std::string>& inputs, const std::vector<std::string>& outputs)
    : runtime_(runtime), session_(nullptr, runtime.api().ReleaseSession) {
  undamaged<std::runtime_error>(name, " is not an ONNX file, or it is damaged", [&] { open(onnx, num_threads); });
  const std::vector<std::string> found_inputs = names(true), found_outputs = names(false);
  if (found_inputs != inputs || found_outputs != outputs) {
    throw DamagedFileError(name + " is not an asr-stream model: its graph takes " + join(found_inputs) + " and gives " +
                           join(found_outputs) + "; `asr export` writes one");
  }
}

void Session::open(std::string_view onnx, int num_threads) {
  const ort::Api& api = runtime_.api();
  ort::SessionOptions* options = nullptr;
  runtime_.check(api.CreateSessionOptions(&options));
  const ort::Owned<ort::SessionOptions> guard(options, api.ReleaseSessionOptions);
  // For 0, ONNX Runtime would pin threads to cores, and containers may not use all of them.
  const int num_cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  runtime_.check(api.SetIntraOpNumThreads(options, num_threads > 0 ? num_threads : num_cores));
  runtime_.check(api.SetInterOpNumThreads(options, 1));
  runtime_.check(api.SetSessionLogSeverityLevel(options, ort::kLogFatal));
  // Memory patterns would allocate one block per run, as long as the utterance: many sizes leave gaps, 10 MB in an
  // hour.
  runtime_.check(api.DisableMemPattern(options));
  // Threads that wait for the next chunk must sleep, or a live process keeps its cores busy.
  runtime_.check(api.AddSessionConfigEntry(options, "session.intra_op.allow_spinning", "0"));
  runtime_.check(api.AddSessionConfigEntry(options, "session.inter_op.allow_spinning", "0"));
  ort::Session* session = nullptr;
  runtime_.check(api.CreateSessionFromArray(runtime_.env(), onnx.data(), onnx.size(), options, &session));
  session_.reset(session);
}

std::vector<Tensor> Session::run(const std::vector<const char*>& inputs, const std::vector<const Tensor*>& tensors,
                                 const std::vector<const char*>& outputs) const {
  std::vector<const ort::Value*> values;
  for (const Tensor* tensor : tensors) values.push_back(tensor->get());
  std::vector<ort::Value*> results(outputs.size(), nullptr);
  std::vector<Tensor> owned;
  owned.reserve(outputs.size());  // before the run, whose results need an owner
  runtime_.check(runtime_.api().Run(session_.get(), nullptr, inputs.data(), values.data(), values.size(),
                                    outputs.data(), outputs.size(), results.data()));
  for (ort::Value* result : results) owned.emplace_back(runtime_, result);
  return owned;
}

std::vector<std::string> Session::names(bool inputs) const {
  const ort::Api& api = runtime_.api();
  std::size_t count = 0;
  runtime_.check((inputs ? api.SessionGetInputCount : api.SessionGetOutputCount)(session_.get(), &count));
  std::vector<std::string> found;
  for (std::size_t i = 0; i < count; ++i) {
    char* name = nullptr;
    runtime_.check(
        (inputs ? api.SessionGetInputName : api.SessionGetOutputName)(session_.get(), i, runtime_.allocator(), &name));
    found.emplace_back(name);
    runtime_.check(api.AllocatorFree(runtime_.allocator(), name));
  }
  return found;
}

Shape Session::shape(std::size_t index, bool input) const {
  const ort::Api& api = runtime_.api();
  ort::TypeInfo* type = nullptr;
  runtime_.check((input ? api.SessionGetInputTypeInfo : api.SessionGetOutputTypeInfo)(session_.get(), index, &type));
  const ort::Owned<ort::TypeInfo> guard(type, api.ReleaseTypeInfo);
  const ort::TensorInfo* info = nullptr;
  runtime_.check(api.CastTypeInfoToTensorInfo(type, &info));  // owned by `type`
  return info ? describe(runtime_, info).shape : Shape{};
}

}  // namespace asr_stream
