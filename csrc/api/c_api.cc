// The C API: converts exceptions to status codes, and C++ values to those of asr_stream.h.

// The core's namespace has the same name as the C type, so the type is renamed in this file.
#define asr_stream asr_stream_handle
#include <asr_stream/asr_stream.h>
#undef asr_stream

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "api/event_view.h"
#include "api/failure.h"
#include "api/model.h"
#include "api/model_stream.h"
#include "exclusive_use.h"
#include "search/spelling.h"

using asr_stream::ExclusiveUse;
using asr_stream::Model;
using asr_stream::ModelOptions;
using asr_stream::ModelStream;
using asr_stream::Options;
using asr_stream::StreamAssets;

struct asr_model {
  std::shared_ptr<const Model> model;
};

struct asr_stream_handle {
  asr_stream_handle(std::shared_ptr<const Model> model, std::int32_t sample_rate, const Options& options,
                    const StreamAssets& assets)
      : stream(std::move(model), sample_rate, options, assets) {}

  ModelStream stream;
  ExclusiveUse use;
  std::string error;
  asr_stream::EventView event;  // the last one taken
};

namespace {

template <typename Kind>
bool is(const std::exception& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

asr_status status_of(const std::exception& error) {
  // std::length_error is thrown for sizes that no container can have.
  if (is<std::bad_alloc>(error) || is<std::length_error>(error)) return ASR_OUT_OF_MEMORY;
  if (is<asr_stream::FileError>(error)) return ASR_FILE_UNREADABLE;
  if (is<asr_stream::DamagedFileError>(error)) return ASR_FILE_DAMAGED;
  if (is<asr_stream::OnnxRuntimeError>(error)) return ASR_RUNTIME_UNAVAILABLE;
  if (is<asr_stream::StreamFinished>(error)) return ASR_FINISHED;
  if (is<asr_stream::NotInitialized>(error)) return ASR_NOT_INITIALIZED;
  return is<std::invalid_argument>(error) ? ASR_INVALID_ARGUMENT : ASR_FAILED;
}

// If there is no memory for a message, only the status is returned.
template <typename Action>
asr_status guarded(std::string& text, Action action) noexcept {
  try {
    try {
      text.clear();
      action();
      return ASR_OK;
    } catch (const std::exception& error) {
      const asr_status status = status_of(error);
      text = status == ASR_OUT_OF_MEMORY ? "out of memory" : error.what();
      return status;
    } catch (...) {
      text = "an unknown failure";
      return ASR_FAILED;
    }
  } catch (...) {
    return ASR_OUT_OF_MEMORY;
  }
}

asr_status set_error(asr_status status, const std::string& text, char* error, size_t error_size) noexcept {
  if (error && error_size) {
    const std::string_view written = asr_stream::utf8_prefix(text, error_size - 1);
    std::memcpy(error, written.data(), written.size());
    error[written.size()] = '\0';
  }
  return status;
}

// Reads the members that the app's struct has; the others get their defaults.
template <typename Struct>
Struct read_options(const Struct* given, void (*init)(Struct*, size_t), const char* name) {
  Struct options;
  init(&options, sizeof options);
  if (given) {
    const size_t size = given->struct_size;
    if (size < sizeof(size_t) || size > sizeof options || size % alignof(Struct)) {
      throw asr_stream::NotInitialized(std::string(name) + ".struct_size is " + std::to_string(size) + "; it must be " +
                                       std::to_string(sizeof options) + ", as " + name + "_init sets it: call that " +
                                       "first, and use a library that is not older than the header");
    }
    std::memcpy(&options, given, size);
  }
  return options;
}

int check_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value < low || value > high) {
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + "; it must be in [" +
                                std::to_string(low) + ", " + std::to_string(high) + "]");
  }
  return static_cast<int>(value);
}

const void* not_null(const void* pointer, const char* name) {
  if (!pointer) throw std::invalid_argument(std::string(name) + " is NULL");
  return pointer;
}

// Reads an optional file, given as a path or as bytes. `what` and `writer` are for error messages.
void read_source(const std::string& option, const char* path, const void* data, size_t size, const char* what,
                 const char* writer, std::string& bytes, std::string& name) {
  if (path && data) {
    throw std::invalid_argument("both " + option + "_path and " + option + "_data are given; give one of them");
  }
  if (!path && !data) return;
  name = path ? path : what;
  bytes = path ? asr_stream::read_file(path) : std::string(static_cast<const char*>(data), size);
  if (bytes.empty()) throw asr_stream::DamagedFileError(name + " is empty; " + writer + " writes one");
}

ModelOptions to_model_options(const asr_model_options* given) {
  const asr_model_options c = read_options(given, &asr_model_options_init, "asr_model_options");
  ModelOptions options;
  if (c.onnxruntime_path) options.onnxruntime_path = c.onnxruntime_path;
  options.num_threads = check_range("num_threads", c.num_threads, 0, 1024);
  check_range("reserved", c.reserved, 0, 0);
  read_source("lm", c.lm_path, c.lm_data, c.lm_size, "the language model", "`asr lm`", options.lm, options.lm_name);
  read_source("neural_lm", c.neural_lm_path, c.neural_lm_data, c.neural_lm_size, "the neural language model",
              "`asr export`", options.neural_lm, options.neural_lm_name);
  read_source("punctuation", c.punctuation_path, c.punctuation_data, c.punctuation_size, "the model for punctuation",
              "`asr export`", options.punctuation, options.punctuation_name);
  if (c.log) {
    options.log = [log = c.log, user_data = c.log_user_data](bool is_error, const char* text) {
      log(user_data, is_error ? ASR_LOG_ERROR : ASR_LOG_INFO, text);
    };
  }
  return options;
}

Options to_options(const asr_options* given) {
  Options options;
  static_cast<asr_options&>(options) = read_options(given, &asr_options_init, "asr_options");
  return options;
}

StreamAssets to_assets(const asr_assets* given) {
  const asr_assets c = read_options(given, &asr_assets_init, "asr_assets");
  check_range("reserved", c.reserved, 0, 0);
  StreamAssets assets;
  assets.use_lm = check_range("use_lm", c.use_lm, 0, 1) != 0;
  const std::pair<std::optional<std::string>*, const char*> lists[] = {
      {&assets.hotwords, c.hotwords}, {&assets.phrases, c.phrases}, {&assets.mask, c.mask},
      {&assets.replace, c.replace}, {&assets.command_list, c.command_list}};
  for (const auto& [list, given] : lists) *list = given ? std::optional<std::string>(given) : std::nullopt;
  return assets;
}

template <typename Struct>
void init(Struct* options, size_t struct_size, Struct defaults) {
  if (!options) return;
  defaults.struct_size = struct_size;
  std::memset(static_cast<void*>(options), 0, struct_size);
  std::memcpy(options, &defaults, std::min(struct_size, sizeof defaults));
}

// `source` returns the bytes and the name of the file.
template <typename Source>
asr_status load(const asr_model_options* options, asr_model** model, char* error, size_t error_size, Source source) {
  std::string text;
  if (model) *model = nullptr;
  const asr_status status = guarded(text, [&] {
    not_null(model, "model");
    ModelOptions wanted = to_model_options(options);
    const auto log = wanted.log;
    try {
      auto loaded = std::make_unique<asr_model>();
      source([&](std::string_view onnx, const std::string& name) {
        loaded->model = std::make_shared<const Model>(onnx, name, std::move(wanted));
      });
      *model = loaded.release();
    } catch (const std::exception& failure) {
      if (log) log(true, failure.what());
      throw;
    }
  });
  return set_error(status, text, error, error_size);
}

// Runs one call that uses a stream.
template <typename Action>
asr_status use(asr_stream_handle* handle, Action action) {
  if (!handle) return ASR_INVALID_ARGUMENT;
  if (!handle->use.try_enter()) return ASR_BUSY;
  const asr_status status = guarded(handle->error, [&] { action(handle->stream); });
  if (status != ASR_OK) {
    try {
      handle->stream.model().log(true, handle->error);
    } catch (...) {  // from the app's callback
    }
  }
  handle->use.leave();
  return status;
}

template <typename Sample>
asr_status accept(asr_stream_handle* handle, const Sample* samples, size_t num_samples) {
  return use(handle, [&](ModelStream& stream) {
    if (num_samples) not_null(samples, "samples");
    stream.accept(samples, num_samples);
  });
}

}  // namespace

const char* asr_status_text(asr_status status) {
  switch (status) {
    case ASR_OK: return "ok";
    case ASR_INVALID_ARGUMENT: return "invalid argument";
    case ASR_FILE_UNREADABLE: return "file cannot be read";
    case ASR_FILE_DAMAGED: return "file is damaged, or of the wrong kind";
    case ASR_RUNTIME_UNAVAILABLE: return "ONNX Runtime is missing or too old";
    case ASR_OUT_OF_MEMORY: return "out of memory";
    case ASR_BUSY: return "another thread is using the stream";
    case ASR_FINISHED: return "the stream is finished";
    case ASR_FAILED: return "recognition failed";
    case ASR_NOT_INITIALIZED: return "a struct was not initialized";
  }
  return "unknown status";
}

const char* asr_version(void) { return ASR_STREAM_VERSION; }

void asr_model_options_init(asr_model_options* options, size_t struct_size) {
  asr_model_options defaults{};
  defaults.num_threads = ModelOptions().num_threads;
  init(options, struct_size, defaults);
}

void asr_options_init(asr_options* options, size_t struct_size) {
  init<asr_options>(options, struct_size, Options());
}

void asr_assets_init(asr_assets* assets, size_t struct_size) {
  init(assets, struct_size, asr_assets{0, nullptr, nullptr, nullptr, 1, 0, nullptr, nullptr});
}

asr_status asr_options_set(asr_options* options, const char* name, const char* value, char* error, size_t error_size) {
  std::string text;
  const asr_status status = guarded(text, [&] {
    not_null(options, "options");
    not_null(name, "name");
    not_null(value, "value");
    Options changed = to_options(options);
    const asr_stream::Option& option = asr_stream::option(name);
    if (asr_stream::offset_of(option) >= changed.struct_size) {
      throw std::invalid_argument(std::string("asr_options.struct_size is that of a version without ") + name);
    }
    asr_stream::set(changed, name, asr_stream::parse(option, value));
    std::memcpy(options, &changed, changed.struct_size);
  });
  return set_error(status, text, error, error_size);
}

asr_status asr_model_load(const char* path, const asr_model_options* options, asr_model** model, char* error,
                          size_t error_size) {
  return load(options, model, error, error_size, [&](auto open) {
    not_null(path, "path");
    open(asr_stream::read_file(path), path);
  });
}

asr_status asr_model_load_memory(const void* data, size_t size, const asr_model_options* options, asr_model** model,
                                 char* error, size_t error_size) {
  return load(options, model, error, error_size, [&](auto open) {
    open(std::string_view(static_cast<const char*>(not_null(data, "data")), size), "the model");
  });
}

void asr_model_free(asr_model* model) { delete model; }

const char* asr_model_property(const asr_model* model, const char* name) {
  if (!model || !name) return nullptr;
  for (const auto& [key, value] : model->model->properties()) {  // `find` would allocate a string, which may throw
    if (key == name) return value.c_str();
  }
  return nullptr;
}

const char* asr_model_property_name(const asr_model* model, size_t index) {
  if (!model || index >= model->model->properties().size()) return nullptr;
  return std::next(model->model->properties().begin(), static_cast<std::ptrdiff_t>(index))->first.c_str();
}

asr_status asr_stream_new(const asr_model* model, int32_t sample_rate, const asr_options* options,
                          const asr_assets* assets, asr_stream_handle** stream, char* error, size_t error_size) {
  std::string text;
  if (stream) *stream = nullptr;
  const asr_status status = guarded(text, [&] {
    not_null(model, "model");
    not_null(stream, "stream");
    *stream = new asr_stream_handle(model->model, sample_rate, to_options(options), to_assets(assets));
  });
  return set_error(status, text, error, error_size);
}

void asr_stream_free(asr_stream_handle* stream) { delete stream; }

asr_status asr_stream_accept_f32(asr_stream_handle* stream, const float* samples, size_t num_samples) {
  return accept(stream, samples, num_samples);
}

asr_status asr_stream_accept_i16(asr_stream_handle* stream, const int16_t* samples, size_t num_samples) {
  return accept(stream, samples, num_samples);
}

asr_status asr_stream_gap(asr_stream_handle* stream, int64_t num_samples) {
  return use(stream, [&](ModelStream& s) { s.gap(num_samples); });
}

asr_status asr_stream_end_utterance(asr_stream_handle* stream) {
  return use(stream, [](ModelStream& s) { s.end_utterance(); });
}

asr_status asr_stream_change(asr_stream_handle* stream, const asr_options* options, const asr_assets* assets) {
  return use(stream, [&](ModelStream& s) { s.change(to_options(options), to_assets(assets)); });
}

asr_status asr_stream_finish(asr_stream_handle* stream) {
  return use(stream, [](ModelStream& s) { s.finish(); });
}

int64_t asr_stream_sample_offset(asr_stream_handle* stream) {
  if (!stream || !stream->use.try_enter()) return -1;
  const int64_t offset = stream->stream.sample_offset();
  stream->use.leave();
  return offset;
}

const char* asr_stream_error(const asr_stream_handle* stream) { return stream ? stream->error.c_str() : ""; }

const char* asr_stream_warning(const asr_stream_handle* stream, size_t index) {
  return stream && index < stream->stream.warnings().size() ? stream->stream.warnings()[index].c_str() : nullptr;
}

const asr_event* asr_stream_next_event(asr_stream_handle* handle) {
  const asr_event* next = nullptr;
  use(handle, [&](ModelStream& stream) {
    next = handle->event.set(stream.next_event());
  });
  return next;
}
