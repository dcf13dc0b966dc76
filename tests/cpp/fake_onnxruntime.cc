// A library in place of ONNX Runtime, for tests of the C API: networks of a few fixed rules in place of trained ones.
//
// A "graph" is an ONNX file without nodes (model_file.h). Its property `fake` says which network it is, and `fails` in
// which run it fails, counted from 1, the run with which it is opened.
//
// - encoder: "A" for audio that is about as loud as the loudest so far, "B" for less loud audio, and nothing in
//   silence. The loudest so far is its state.
// - decoder: every sentence has the same score. Step by step it says "AB", as long as its caches are those of the
//   hypothesis; without the encoder's output it fails.
// - punctuation: a period after every word.
// - neural_lm: every piece has a log-probability of -1.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "api/onnxruntime_api.h"
#include "contract.h"
#include "onnx_file.h"
#include "work.h"

namespace asr_stream::ort {

struct Status {
  std::string text;
};
struct Env {};
struct Allocator {};
struct MemoryInfo {};
struct SessionOptions {};

struct TensorInfo {
  ElementType type;
  Shape shape;
};
struct TypeInfo {
  TensorInfo tensor;
};

struct Value {
  Value(ElementType type, Shape shape, void* given = nullptr) : info{type, std::move(shape)}, data(given) {
    if (given) return;
    owned.resize(size() * (type == kFloat ? sizeof(float) : sizeof(std::int64_t)));
    data = owned.data();
  }

  std::size_t size() const {
    std::size_t product = 1;
    for (const std::int64_t length : info.shape) product *= static_cast<std::size_t>(length);
    return product;
  }
  float* floats() const { return static_cast<float*>(data); }
  std::int64_t* integers() const { return static_cast<std::int64_t*>(data); }
  std::int64_t length(std::size_t axis) const { return info.shape.at(axis); }

  TensorInfo info;
  std::vector<char> owned;
  void* data;
};

using Inputs = std::map<std::string, const Value*>;
using Outputs = std::map<std::string, std::unique_ptr<Value>>;

struct Session {
  struct Tensor {
    std::string name;
    TensorInfo info;
  };

  explicit Session(std::map<std::string, std::string> properties) : kind(std::move(properties["fake"])) {
    const std::string& fails = properties["fails"];
    if (!fails.empty()) failing_run = std::stoi(fails);
    const std::string& tokens = properties["tokens"];
    vocab_size = 1 + std::count(tokens.begin(), tokens.end(), '\n');
    if (!properties["dim"].empty()) dim = std::stoi(properties["dim"]);
    const auto add = [](std::vector<Tensor>& to, const auto& names) {
      for (const char* name : names) to.push_back({name, {kFloat, {-1}}});
    };
    if (kind == "encoder") {
      inputs = {{"x", {kFloat, {-1, -1, kNumBins}}}, {"num_valid", {kInt64, {-1}}}, {"loudest", {kFloat, {-1}}}};
      outputs = {{"log_probs", {kFloat, {-1, -1, vocab_size}}},
                 {"encoder_out", {kFloat, {-1, -1, dim}}},
                 {"new_loudest", {kFloat, {-1}}}};
    } else if (kind == "decoder") {
      add(inputs, kDecoderInputs);
      add(outputs, kDecoderOutputs);
      for (const char* name : {kDecoderStepOutput, "new_key_cache", "new_value_cache", "new_memory_keys",
                               "new_memory_values"}) {
        outputs.push_back({name, {kFloat, {-1}}});
      }
    } else if (kind == "punctuation") {
      add(inputs, kPunctuationInputs);
      add(outputs, kPunctuationOutputs);
    } else if (kind == "neural_lm") {
      add(inputs, kNeuralLmInputs);
      add(outputs, kNeuralLmOutputs);
    }
  }

  Outputs run(const Inputs& given) const {
    Outputs result;
    const auto make = [&result](const char* name, Shape shape) {
      return (result[name] = std::make_unique<Value>(kFloat, std::move(shape)))->floats();
    };
    if (kind == "encoder") {
      const Value& x = *given.at("x");
      const std::int64_t num_frames = (x.length(1) - kFeatureOverlap) / kSubsampling;
      float* log_probs = make("log_probs", {1, num_frames, vocab_size});
      std::fill_n(log_probs, num_frames * vocab_size, -5.0f);
      std::fill_n(make("encoder_out", {1, num_frames, dim}), num_frames * dim, 0.5f);
      float& loudest = *make("new_loudest", {1});
      loudest = given.at("loudest")->floats()[0];
      for (std::int64_t frame = 0; frame < num_frames; ++frame) {
        const float* bins = x.floats() + frame * kSubsampling * kNumBins;
        const float loudness = 30.0f + std::accumulate(bins, bins + kNumBins, 0.0f) / kNumBins;
        std::int64_t token = 0;
        if (loudness > 16.0f) {
          loudest = std::max(loudest, loudness);
          token = loudness > loudest - 5.0f ? 4 : 5;
        }
        log_probs[frame * vocab_size + token] = -0.05f;
      }
    } else if (kind == "decoder" && given.count(kDecoderStepInput)) {
      const Value &previous = *given.at(kDecoderStepInput), &heard = *given.at("encoder_out");
      const Value& past = *given.at("key_cache");
      const std::int64_t count = previous.length(0), layers = past.length(1), length = past.length(2);
      const Value& memory = *given.at("memory_keys");
      const std::int64_t num_frames = std::max(heard.length(1), memory.length(2));
      if (!num_frames) throw std::runtime_error("the decoder has not heard the audio");
      for (const char* name : {"new_memory_keys", "new_memory_values"}) make(name, {1, layers, num_frames, dim});
      float* keys = make("new_key_cache", {count, layers, length + 1, dim});
      make("new_value_cache", {count, layers, length + 1, dim});
      float* log_probs = make("log_probs", {count, 1, vocab_size});
      std::fill_n(log_probs, count * vocab_size, -4.0f);
      const std::vector<std::int64_t> sentence{kSosEosId, 4, 5};
      for (std::int64_t row = 0; row < count; ++row) {
        std::vector<std::int64_t> said;
        for (std::int64_t i = 0; i < length; ++i) {
          said.push_back(static_cast<std::int64_t>(past.floats()[(row * layers * length + i) * dim]));
        }
        said.push_back(previous.integers()[row]);
        for (std::int64_t layer = 0; layer < layers; ++layer) {
          for (const std::int64_t token : said) keys = std::fill_n(keys, dim, static_cast<float>(token));
        }
        const bool is_right = said.size() <= sentence.size() && std::equal(said.begin(), said.end(), sentence.begin());
        const std::int64_t next = is_right && said.size() < sentence.size() ? sentence[said.size()] : kSosEosId;
        log_probs[row * vocab_size + next] = -0.1f;
      }
    } else if (kind == "decoder") {
      const std::int64_t count = given.at("tokens")->length(0);
      std::fill_n(make("scores", {count}), count, -1.0f);
    } else if (kind == "punctuation") {
      const std::int64_t num_units = given.at("features")->length(1);
      float* marks = make("mark_probs", {1, num_units, 4});
      float* cases = make("case_probs", {1, num_units, 3});
      for (std::int64_t unit = 0; unit < num_units; ++unit) marks[4 * unit + 2] = cases[3 * unit] = 1.0f;
    } else {
      const std::int64_t num_nodes = given.at("pieces")->length(0);
      std::fill_n(make("log_probs", {num_nodes}), num_nodes, -1.0f);
    }
    return result;
  }

  std::string kind;
  std::vector<Tensor> inputs, outputs;
  std::int64_t vocab_size = 0, dim = 0;
  int failing_run = 0, num_runs = 0;
};

namespace {

template <typename Action>
Status* guarded(Action action) {
  try {
    action();
    return nullptr;
  } catch (const std::exception& error) {
    return new Status{error.what()};
  }
}

template <typename T>
Status* ignored(T*, int) {
  return nullptr;
}

Api make_api() {
  Api api{};
  api.GetErrorMessage = [](const Status* status) { return status->text.c_str(); };
  api.CreateEnvWithCustomLogger = [](Logger, void*, LoggingLevel, const char*, Env** env) -> Status* {
    static Env only;
    *env = &only;
    return nullptr;
  };
  api.CreateSessionFromArray = [](const Env*, const void* bytes, std::size_t size, const SessionOptions*,
                                  Session** session) {
    return guarded([&] {
      *session = new Session(read_onnx_properties({static_cast<const char*>(bytes), size}));
    });
  };
  api.Run = [](Session* session, const RunOptions*, const char* const* input_names, const Value* const* inputs,
               std::size_t num_inputs, const char* const* output_names, std::size_t num_outputs, Value** outputs) {
    return guarded([&] {
      if (++session->num_runs == session->failing_run) {
        // As the real one writes it.
        throw std::runtime_error("/src/kernel.cc:12 void run(int, Shape (*)()) the network broke\nmore lines");
      }
      Inputs given;
      for (std::size_t i = 0; i < num_inputs; ++i) given[input_names[i]] = inputs[i];
      Outputs found = session->run(given);
      for (std::size_t i = 0; i < num_outputs; ++i) outputs[i] = found.at(output_names[i]).release();
    });
  };
  api.CreateSessionOptions = [](SessionOptions** options) -> Status* {
    *options = new SessionOptions;
    return nullptr;
  };
  api.DisableMemPattern = [](SessionOptions*) -> Status* { return nullptr; };
  api.SetSessionLogSeverityLevel = api.SetIntraOpNumThreads = api.SetInterOpNumThreads = &ignored<SessionOptions>;
  api.AddSessionConfigEntry = [](SessionOptions*, const char*, const char*) -> Status* { return nullptr; };
  api.SessionGetInputCount = [](const Session* session, std::size_t* count) -> Status* {
    *count = session->inputs.size();
    return nullptr;
  };
  api.SessionGetOutputCount = [](const Session* session, std::size_t* count) -> Status* {
    *count = session->outputs.size();
    return nullptr;
  };
  api.SessionGetInputTypeInfo = [](const Session* session, std::size_t index, TypeInfo** type) -> Status* {
    *type = new TypeInfo{session->inputs.at(index).info};
    return nullptr;
  };
  api.SessionGetOutputTypeInfo = [](const Session* session, std::size_t index, TypeInfo** type) -> Status* {
    *type = new TypeInfo{session->outputs.at(index).info};
    return nullptr;
  };
  api.SessionGetInputName = [](const Session* session, std::size_t index, Allocator*, char** name) -> Status* {
    *name = strdup(session->inputs.at(index).name.c_str());
    return nullptr;
  };
  api.SessionGetOutputName = [](const Session* session, std::size_t index, Allocator*, char** name) -> Status* {
    *name = strdup(session->outputs.at(index).name.c_str());
    return nullptr;
  };
  api.CreateTensorAsOrtValue = [](Allocator*, const std::int64_t* shape, std::size_t rank, ElementType type,
                                  Value** value) -> Status* {
    *value = new Value(type, Shape(shape, shape + rank));
    return nullptr;
  };
  api.CreateTensorWithDataAsOrtValue = [](const MemoryInfo*, void* data, std::size_t size, const std::int64_t* shape,
                                          std::size_t rank, ElementType type, Value** value) {
    return guarded([&] {
      auto made = std::make_unique<Value>(type, Shape(shape, shape + rank), data);
      const std::size_t element = type == kFloat ? sizeof(float) : sizeof(std::int64_t);
      if (made->size() * element != size) throw std::runtime_error("a tensor has another size than its data");
      *value = made.release();
    });
  };
  api.GetTensorMutableData = [](Value* value, void** data) -> Status* {
    *data = value->data;
    return nullptr;
  };
  api.CastTypeInfoToTensorInfo = [](const TypeInfo* type, const TensorInfo** info) -> Status* {
    *info = &type->tensor;
    return nullptr;
  };
  api.GetTensorElementType = [](const TensorInfo* info, ElementType* type) -> Status* {
    *type = info->type;
    return nullptr;
  };
  api.GetDimensionsCount = [](const TensorInfo* info, std::size_t* rank) -> Status* {
    *rank = info->shape.size();
    return nullptr;
  };
  api.GetDimensions = [](const TensorInfo* info, std::int64_t* shape, std::size_t rank) -> Status* {
    std::copy_n(info->shape.begin(), rank, shape);
    return nullptr;
  };
  api.GetTensorTypeAndShape = [](const Value* value, TensorInfo** info) -> Status* {
    *info = new TensorInfo(value->info);
    return nullptr;
  };
  api.CreateCpuMemoryInfo = [](AllocatorType, MemoryType, MemoryInfo** memory) -> Status* {
    static MemoryInfo only;
    *memory = &only;
    return nullptr;
  };
  api.AllocatorFree = [](Allocator*, void* memory) -> Status* {
    std::free(memory);
    return nullptr;
  };
  api.GetAllocatorWithDefaultOptions = [](Allocator** allocator) -> Status* {
    static Allocator only;
    *allocator = &only;
    return nullptr;
  };
  api.ReleaseStatus = [](Status* status) { delete status; };
  api.ReleaseMemoryInfo = [](MemoryInfo*) {};
  api.ReleaseSession = [](Session* session) { delete session; };
  api.ReleaseValue = [](Value* value) { delete value; };
  api.ReleaseTypeInfo = [](TypeInfo* type) { delete type; };
  api.ReleaseTensorTypeAndShapeInfo = [](TensorInfo* info) { delete info; };
  api.ReleaseSessionOptions = [](SessionOptions* options) { delete options; };
  return api;
}

}  // namespace

}  // namespace asr_stream::ort

extern "C" __attribute__((visibility("default"))) const asr_stream::ort::ApiBase* OrtGetApiBase() {
  namespace ort = asr_stream::ort;
  static const ort::Api api = ort::make_api();
  static const ort::ApiBase base{[](std::uint32_t) { return &api; }, [] { return "0.0-fake"; }};
  return &base;
}
