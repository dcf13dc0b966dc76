// libasr_stream for C++17: a wrapper of the C API (asr_stream.h) with RAII, strings and exceptions.
//
//     asr::Model model("model.onnx");
//     asr::Stream stream(model);
//     stream.accept(samples, num_samples);  // float or std::int16_t, mono, any length, again and again
//     stream.finish();
//     while (auto event = stream.next_event()) std::cout << event->text << '\n';
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "asr_stream.h"

namespace asr {

class Error : public std::runtime_error {
 public:
  Error(asr_status status, const std::string& text)
      : std::runtime_error(text.empty() ? asr_status_text(status) : text), status_(status) {}

  asr_status status() const noexcept { return status_; }

 private:
  asr_status status_;
};

// How to open a model, and how a stream recognizes: the settings of asr_stream.h, by name.
class Settings {
 public:
  Settings() : settings_(asr_settings_new(), asr_settings_free) {
    if (!settings_) throw Error(ASR_OUT_OF_MEMORY, "");
  }

  Settings& set(const std::string& name, const std::string& value) {
    return check([&](auto... error) { return asr_settings_set(get(), name.c_str(), value.c_str(), error...); });
  }
  Settings& set_bytes(const std::string& name, const void* data, std::size_t size) {
    return check([&](auto... error) { return asr_settings_set_bytes(get(), name.c_str(), data, size, error...); });
  }

  asr_settings* get() const noexcept { return settings_.get(); }

 private:
  template <typename Call>
  Settings& check(Call call) {
    std::string error(1024, '\0');
    const asr_status status = call(error.data(), error.size());
    if (status != ASR_OK) throw Error(status, error.c_str());
    return *this;
  }

  std::unique_ptr<asr_settings, void (*)(asr_settings*)> settings_;
};

struct Word {
  std::string text;
  double start_s;
  double end_s;
  float confidence;
};

struct Alternative {
  std::string text;
  float confidence;
  std::vector<Word> words;
};

struct Event {
  asr_event_type type;
  std::string text;
  double start_s;
  double end_s;
  std::vector<Word> words;
  std::size_t num_stable;
  std::size_t num_taken_back;  // earlier FINALs that it takes back ("scratch that")
  std::string endpoint;        // "" if it is not a FINAL
  std::string raw;             // as recognized
  std::vector<Word> raw_words;
  std::vector<Alternative> alternatives;
};

// Immutable; may be copied, and shared between threads.
class Model {
 public:
  explicit Model(const std::string& path, const Settings& settings = {}) {
    open([&](auto... out) { return asr_model_load(path.c_str(), settings.get(), out...); });
  }
  Model(const void* data, std::size_t size, const Settings& settings = {}) {
    open([&](auto... out) { return asr_model_load_memory(data, size, settings.get(), out...); });
  }

  // A property, or "" if the model does not have it.
  std::string property(const std::string& name) const {
    const char* value = asr_model_property(get(), name.c_str());
    return value ? value : "";
  }
  std::vector<std::string> property_names() const {
    std::vector<std::string> names;
    while (const char* name = asr_model_property_name(get(), names.size())) names.emplace_back(name);
    return names;
  }

  const asr_model* get() const noexcept { return model_.get(); }

 private:
  template <typename Load>
  void open(Load load) {
    asr_model* model = nullptr;
    std::string error(1024, '\0');
    const asr_status status = load(&model, error.data(), error.size());
    if (status != ASR_OK) throw Error(status, error.c_str());
    model_.reset(model, asr_model_free);
  }

  std::shared_ptr<const asr_model> model_;
};

// For one thread at a time. The constructor, accept, gap, end_utterance, change and finish may throw Error.
class Stream {
 public:
  explicit Stream(const Model& model, const Settings& settings = {}, std::int32_t sample_rate = ASR_SAMPLE_RATE) {
    asr_stream* stream = nullptr;
    std::string error(1024, '\0');
    const asr_status status =
        asr_stream_new(model.get(), sample_rate, settings.get(), &stream, error.data(), error.size());
    if (status != ASR_OK) throw Error(status, error.c_str());
    stream_.reset(stream);
  }

  void accept(const float* samples, std::size_t count) { check(asr_stream_accept_f32(get(), samples, count)); }
  void accept(const std::int16_t* samples, std::size_t count) { check(asr_stream_accept_i16(get(), samples, count)); }
  void gap(std::int64_t num_samples) { check(asr_stream_gap(get(), num_samples)); }
  void end_utterance() { check(asr_stream_end_utterance(get())); }
  void change(const Settings& settings) { check(asr_stream_change(get(), settings.get())); }
  void finish() { check(asr_stream_finish(get())); }

  std::int64_t sample_offset() const { return asr_stream_sample_offset(get()); }

  // Sentences about a missing language model and skipped lines of the present settings.
  std::vector<std::string> warnings() const {
    std::vector<std::string> found;
    while (const char* text = asr_stream_warning(get(), found.size())) found.emplace_back(text);
    return found;
  }

  // The oldest event not yet taken.
  std::optional<Event> next_event() {
    const asr_event* event = asr_stream_next_event(get());
    if (!event) return std::nullopt;
    Event copy{event->type, event->text, event->start_s, event->end_s, {}, event->num_stable, event->num_taken_back,
               event->endpoint ? event->endpoint : "", event->raw, {}, {}};
    const auto add = [](std::vector<Word>& words, const asr_word* from, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) {
        words.push_back({from[i].text, from[i].start_s, from[i].end_s, from[i].confidence});
      }
    };
    add(copy.words, event->words, event->num_words);
    add(copy.raw_words, event->raw_words, event->num_raw_words);
    for (std::size_t i = 0; i < event->num_alternatives; ++i) {
      const asr_alternative& other = event->alternatives[i];
      copy.alternatives.push_back({other.text, other.confidence, {}});
      add(copy.alternatives.back().words, other.words, other.num_words);
    }
    return copy;
  }

  asr_stream* get() const noexcept { return stream_.get(); }

 private:
  struct Free {
    void operator()(asr_stream* stream) const noexcept { asr_stream_free(stream); }
  };

  void check(asr_status status) const {
    if (status != ASR_OK) throw Error(status, status == ASR_BUSY ? "" : asr_stream_error(get()));
  }

  std::unique_ptr<asr_stream, Free> stream_;
};

}  // namespace asr
