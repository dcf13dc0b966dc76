// The C API: converts exceptions to status codes, and C++ values to those of asr_stream.h.

// The core's namespace has the same name as the C type, so the type is renamed in this file.
#define asr_stream asr_stream_handle
#include <asr_stream/asr_stream.h>
#undef asr_stream

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/event_view.h"
#include "api/failure.h"
#include "api/model.h"
#include "api/model_stream.h"
#include "exclusive_use.h"
#include "json.h"
#include "utf8.h"

using asr_stream::ExclusiveUse;
using asr_stream::Model;
using asr_stream::ModelOptions;
using asr_stream::ModelStream;
using asr_stream::Options;

static_assert(ASR_SAMPLE_RATE == asr_stream::kSampleRate && ASR_MIN_SAMPLE_RATE == asr_stream::kMinSampleRate &&
              ASR_MAX_SAMPLE_RATE == asr_stream::kMaxSampleRate);

struct asr_settings {
  Options options;
  ModelOptions model;  // a file that is a path has no bytes before the model is loaded
  std::string text;    // last returned
};

struct asr_model {
  std::shared_ptr<const Model> model;
};

struct asr_stream_handle {
  asr_stream_handle(std::shared_ptr<const Model> model, std::int32_t sample_rate, const Options& options)
      : stream(std::move(model), sample_rate, options) {}

  ModelStream stream;
  ExclusiveUse use;
  std::string error;
  asr_stream::EventView event;  // the last one taken
  std::string json;
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

const void* not_null(const void* pointer, const char* name) {
  if (!pointer) throw std::invalid_argument(std::string(name) + " is NULL");
  return pointer;
}

// The settings for asr_model_load that are files.
struct ModelFile {
  std::string_view name;
  asr_stream::FileBytes ModelOptions::*bytes;
  std::string ModelOptions::*file;  // the path, or `what`
  const char* what;
  const char* writer;  // for error messages
};
constexpr ModelFile kModelFiles[] = {
    {"lm", &ModelOptions::lm, &ModelOptions::lm_name, "the language model", "`asr lm`"},
    {"decoder", &ModelOptions::decoder, &ModelOptions::decoder_name, "the decoder", "`asr export`"},
    {"neural_lm", &ModelOptions::neural_lm, &ModelOptions::neural_lm_name, "the neural language model", "`asr export`"},
    {"punctuation", &ModelOptions::punctuation, &ModelOptions::punctuation_name, "the model for punctuation",
     "`asr export`"}};
constexpr std::string_view kRuntime = "onnxruntime", kThreads = "num_threads";
constexpr std::int32_t kMaxThreads = 1024;

const ModelFile* find_file(std::string_view name) {
  for (const ModelFile& file : kModelFiles) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

// Also names the settings that are not in the table of options.
const asr_stream::Option& find(std::string_view name) {
  if (const auto* option = asr_stream::find_option(name)) return *option;
  std::string text = std::string(asr_stream::no_option(name).what()) + "; for the model: ";
  for (const ModelFile& file : kModelFiles) text += std::string(file.name) + ", ";
  throw std::invalid_argument(text + std::string(kThreads) + ", " + std::string(kRuntime));
}

std::int32_t to_threads(std::string_view text) {
  std::int32_t count = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (fault != std::errc() || end != text.data() + text.size() || count < 0 || count > kMaxThreads) {
    throw std::invalid_argument("num_threads is '" + asr_stream::printable(text) +
                                "'; it must be a whole number in [0, " + std::to_string(kMaxThreads) + "]");
  }
  return count;
}

// value: NULL for the default.
void set(asr_settings& settings, std::string_view name, const char* value) {
  const ModelFile* file = find_file(name);
  if ((file || name == kRuntime) && value && !*value) {
    throw std::invalid_argument(std::string(name) + " is empty; name a file, or set NULL for none");
  }
  if (file) {
    settings.model.*file->bytes = {};
    settings.model.*file->file = value ? value : "";
  } else if (name == kRuntime) {
    settings.model.onnxruntime_path = value ? value : "";
  } else if (name == kThreads) {
    settings.model.num_threads = value ? to_threads(value) : ModelOptions().num_threads;
  } else {
    const asr_stream::Option& option = find(name);
    if (!value) return reset(settings.options, option);
    asr_stream::set(settings.options, name, parse(option, value));
  }
}

void set_bytes(asr_settings& settings, std::string_view name, const void* data, std::size_t size) {
  const ModelFile* file = find_file(name);
  if (!file) {
    find(name);
    throw std::invalid_argument(asr_stream::printable(name) + " is no file; set a text");
  }
  not_null(data, "data");
  if (!size) throw asr_stream::DamagedFileError(std::string(file->what) + " is empty; " + file->writer + " writes one");
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  settings.model.*file->bytes = asr_stream::FileBytes(std::vector<std::uint8_t>(bytes, bytes + size));
  settings.model.*file->file = file->what;
}

// Returns nullptr if there is no such setting, or if it has no value.
const char* get(asr_settings& settings, std::string_view name) {
  const ModelFile* file = find_file(name);
  if (file && (settings.model.*file->bytes).size != 0) return nullptr;
  if (file || name == kRuntime) {
    settings.text = file ? settings.model.*file->file : settings.model.onnxruntime_path;
    return settings.text.empty() ? nullptr : settings.text.c_str();
  }
  if (name == kThreads) return (settings.text = std::to_string(settings.model.num_threads)).c_str();
  const asr_stream::Option* option = asr_stream::find_option(name);
  if (!option || is_unset(settings.options, *option)) return nullptr;
  return (settings.text = asr_stream::to_text(get(settings.options, *option))).c_str();
}

// Reads the files that are paths.
ModelOptions to_model_options(const asr_settings* settings) {
  ModelOptions options = settings ? settings->model : ModelOptions();
  for (const ModelFile& file : kModelFiles) {
    const std::string& path = options.*file.file;
    asr_stream::FileBytes& bytes = options.*file.bytes;
    if (path.empty() || bytes.size != 0) continue;
    bytes = asr_stream::open_file(path);
    if (bytes.size == 0) throw asr_stream::DamagedFileError(path + " is empty; " + file.writer + " writes one");
  }
  return options;
}

Options to_options(const asr_settings* settings) { return settings ? settings->options : Options(); }

// `source` returns the bytes and the name of the file.
template <typename Source>
asr_status load(const asr_settings* settings, asr_model** model, char* error, size_t error_size, Source source) {
  std::string text;
  if (model) *model = nullptr;
  const asr_status status = guarded(text, [&] {
    not_null(model, "model");
    const auto log = settings ? settings->model.log : nullptr;
    try {
      ModelOptions wanted = to_model_options(settings);
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
  }
  return "unknown status";
}

const char* asr_version(void) { return ASR_STREAM_VERSION; }

asr_settings* asr_settings_new(void) {
  std::string text;
  asr_settings* settings = nullptr;
  guarded(text, [&] { settings = new asr_settings; });
  return settings;
}

void asr_settings_free(asr_settings* settings) { delete settings; }

asr_status asr_settings_set(asr_settings* settings, const char* name, const char* value, char* error,
                            size_t error_size) {
  std::string text;
  const asr_status status = guarded(text, [&] {
    not_null(settings, "settings");
    set(*settings, static_cast<const char*>(not_null(name, "name")), value);
  });
  return set_error(status, text, error, error_size);
}

asr_status asr_settings_set_bytes(asr_settings* settings, const char* name, const void* data, size_t size, char* error,
                                  size_t error_size) {
  std::string text;
  const asr_status status = guarded(text, [&] {
    not_null(settings, "settings");
    set_bytes(*settings, static_cast<const char*>(not_null(name, "name")), data, size);
  });
  return set_error(status, text, error, error_size);
}

const char* asr_settings_get(asr_settings* settings, const char* name) {
  const char* value = nullptr;
  std::string text;
  if (settings && name) guarded(text, [&] { value = get(*settings, name); });
  return value;
}

void asr_settings_set_log(asr_settings* settings, asr_log_callback log, void* user_data) {
  if (!settings) return;
  settings->model.log = nullptr;
  if (!log) return;
  settings->model.log = [log, user_data](bool is_error, const char* text) {
    log(user_data, is_error ? ASR_LOG_ERROR : ASR_LOG_INFO, text);
  };
}

asr_status asr_model_load(const char* path, const asr_settings* settings, asr_model** model, char* error,
                          size_t error_size) {
  return load(settings, model, error, error_size, [&](auto open) {
    not_null(path, "path");
    open(asr_stream::open_file(path).view(), path);
  });
}

asr_status asr_model_load_memory(const void* data, size_t size, const asr_settings* settings, asr_model** model,
                                 char* error, size_t error_size) {
  return load(settings, model, error, error_size, [&](auto open) {
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

asr_status asr_stream_new(const asr_model* model, int32_t sample_rate, const asr_settings* settings,
                          asr_stream_handle** stream, char* error, size_t error_size) {
  std::string text;
  if (stream) *stream = nullptr;
  const asr_status status = guarded(text, [&] {
    not_null(model, "model");
    not_null(stream, "stream");
    *stream = new asr_stream_handle(model->model, sample_rate, to_options(settings));
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

asr_status asr_stream_change(asr_stream_handle* stream, const asr_settings* settings) {
  return use(stream, [&](ModelStream& s) { s.change(to_options(settings)); });
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

const char* asr_stream_next_json(asr_stream_handle* handle) {
  const char* next = nullptr;
  use(handle, [&](ModelStream& stream) {
    if (const auto event = stream.next_event()) next = (handle->json = to_json(*event)).c_str();
  });
  return next;
}
