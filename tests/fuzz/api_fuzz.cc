// Any sequence of C API calls, with any arguments except wrong pointers; checks the guarantees for events.
//
// The input is settings of a stream and then calls, one byte each, followed by their arguments; make_corpus.py writes
// some. The audio is the bundled recording, so that words are recognized.

// The core's namespace has the same name as the C type, so the type is renamed in this file.
#define asr_stream asr_stream_handle
#include <asr_stream/asr_stream.h>
#undef asr_stream

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "options.h"
#include "utf8.h"
#include "wav.h"

namespace {

const std::string kRoot = ASR_STREAM_ROOT;  // the folder of the project
constexpr std::size_t kMaxSamples = 48000;  // in one run, at 16 kHz, because the time is limited
constexpr int kMaxCalls = 40;

const asr_event* the_event = nullptr;  // that is checked

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  if (the_event) {
    const asr_event& event = *the_event;
    std::fprintf(stderr, "event %d [%.3f, %.3f] %s\n", event.type, event.start_s, event.end_s, event.text);
    const auto show = [](const asr_word& word) {
      std::fprintf(stderr, "  %s [%.3f, %.3f] %.3f\n", word.text, word.start_s, word.end_s, word.confidence);
    };
    std::for_each(event.words, event.words + event.num_words, show);
    for (std::size_t i = 0; i < event.num_alternatives; ++i) {
      std::fprintf(stderr, "or %s\n", event.alternatives[i].text);
      std::for_each(event.alternatives[i].words, event.alternatives[i].words + event.alternatives[i].num_words, show);
    }
  }
  std::abort();
}

// with_lm: with a language model, a neural one and punctuation; the model without them is searched by letters. The
// language model is a small one, because the bundled one takes seconds to open.
asr_model* open_model(bool with_lm) {
  const std::string folder = kRoot + "/asr/models/", neural_lm = folder + "english.neural.onnx",
                    punctuation = folder + "english.punctuation.onnx",
                    decoder = folder + "tiny.int8.decoder.onnx", lm = kRoot + "/tests/fuzz/words.lm";
  asr_settings* settings = asr_settings_new();
  asr_settings_set(settings, "decoder", decoder.c_str(), nullptr, 0);
  if (with_lm) {
    asr_settings_set(settings, "lm", lm.c_str(), nullptr, 0);
    asr_settings_set(settings, "neural_lm", neural_lm.c_str(), nullptr, 0);
    asr_settings_set(settings, "punctuation", punctuation.c_str(), nullptr, 0);
  }
  asr_model* model = nullptr;
  char error[512];
  if (asr_model_load((folder + "tiny.int8.onnx").c_str(), settings, &model, error, sizeof error) != ASR_OK) {
    std::fprintf(stderr, "%s\n", error);
    std::exit(2);
  }
  asr_settings_free(settings);
  return model;
}

asr_model* the_model(bool with_lm) {
  static asr_model* const models[] = {open_model(false), open_model(true)};
  return models[with_lm];
}

const std::vector<std::int16_t>& speech() {
  static const std::vector<std::int16_t> samples = [] {
    std::FILE* file = std::fopen((kRoot + "/asr/samples/sample.wav").c_str(), "rb");
    std::uint32_t count = 0;
    if (!file || wav_open(file, &count)) std::exit(2);
    std::vector<std::int16_t> read(count);
    read.resize(std::fread(read.data(), sizeof read[0], read.size(), file));
    std::fclose(file);
    return read;
  }();
  return samples;
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return left_; }
  std::uint8_t byte() { return take<std::uint8_t>(); }

  template <typename T>
  T take() {  // zeros after the end
    T value{};
    const std::size_t count = std::min(sizeof value, left_);
    if (count) std::memcpy(&value, data_, count);
    data_ += count;
    left_ -= count;
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

// A list of hotwords, phrases, masked words, replacements or commands; the recording has some of the words.
std::string list(Bytes& bytes) {
  static constexpr const char* kPieces[] = {"old man", "children", "the", "road", "walked", "new line", "scratch that",
                                            "comma", " ", "\n", "\n", " -> ", "=", ":3", "\t9", "[unk]",
                                            "CAF\xC3\x89", "'", ".", "7", "\xFF", "ran", "ZYX", "a"};
  std::string text;
  for (int count = bytes.byte() % 12; count > 0; --count) text += kPieces[bytes.byte() % std::size(kPieces)];
  return text;
}

// The settings of a stream: some options and lists.
struct Settings {
  explicit Settings(Bytes& bytes) {
    set("beam_size", "16");  // the default takes most of the time
    for (int count = bytes.byte() % 8; count > 0; --count) set_option(bytes);
    const unsigned lists = bytes.byte();
    std::size_t index = 0;
    for (const asr_stream::Option& option : asr_stream::kOptions) {
      if (option.type == asr_stream::OptionType::kList && lists >> index++ & 1) set(option.name, list(bytes));
    }
    if (lists >> 5 & 1) set("use_lm", "false");
    limit("beam_size", 64);
    limit("num_rescored", 8);
  }
  ~Settings() { asr_settings_free(handle); }

  std::string get(const char* name) const {
    const char* value = asr_settings_get(handle, name);
    return value ? value : "";
  }

 private:
  void set(const char* name, const std::string& value) {
    const std::string before = get(name);
    char error[64] = "";
    const asr_status status = asr_settings_set(handle, name, value.c_str(), error, sizeof error);
    require((status == ASR_OK) == !*error, "a failure has a text");
    require(status == ASR_OK || get(name) == before, "a rejected value changes nothing");
  }

  void limit(const char* name, int most) {
    if (std::stoi(get(name)) > most) set(name, std::to_string(most));
  }

  void set_option(Bytes& bytes) {
    const asr_stream::Option& option = asr_stream::kOptions[bytes.byte() % asr_stream::kNumOptions];
    const std::uint8_t place = bytes.byte();  // in the range of the option
    if (place == 255 || option.type == asr_stream::OptionType::kList) return set(option.name, list(bytes));
    const double high = std::min(option.high, option.bracket == '(' ? option.low + 4.0 : 1e9);  // of seconds, few
    double value = option.low + (high - option.low) * place / 255.0;
    if (option.type != asr_stream::OptionType::kNumber) value = std::round(value);
    if (option.type == asr_stream::OptionType::kMilliseconds) value -= std::fmod(value, asr_stream::kEncoderFrameMs);
    if (option.name == std::string_view("chunk_ms")) value = 40.0 * (1 + place % 24);
    asr_stream::OptionValue given = value;
    if (option.type == asr_stream::OptionType::kFlag) given = place % 2 != 0;
    if (option.type == asr_stream::OptionType::kChoice) given = choices(option)[place % choices(option).size()];
    set(option.name, asr_stream::to_text(given));
  }

 public:
  asr_settings* const handle = asr_settings_new();
};

class Session {
 public:
  ~Session() {
    take_json();
    asr_stream_free(stream_);
  }

  void open(Bytes& bytes) {
    take_json();
    asr_stream_free(stream_);
    stream_ = nullptr;
    end_of_final_s_ = 0.0;
    num_finals_ = 0;
    const Settings settings(bytes);
    const std::uint8_t kind = bytes.byte();
    rate_ = kind % 4 == 0 ? 8000 + bytes.take<std::uint16_t>() : ASR_SAMPLE_RATE;
    char error[64];
    const asr_status status = asr_stream_new(the_model(kind & 0x80), rate_, settings.handle, &stream_, error,
                                             sizeof error);
    require((status == ASR_OK) == (stream_ != nullptr), "a stream comes with ASR_OK, and only then");
    require(status == ASR_OK || std::strlen(error) > 0, "a failure has a text");
    note(settings);
  }

  void change(Bytes& bytes) {
    const Settings settings(bytes);
    const bool with_defaults = bytes.byte() % 8 == 0;
    const asr_status status = asr_stream_change(stream_, with_defaults ? nullptr : settings.handle);
    if (status == ASR_OK) note(settings);
    check(status);
  }

  // Recorded speech, or noise if `seed` is not 0.
  void accept(Bytes& bytes, bool as_float) {
    const std::uint16_t begin = bytes.take<std::uint16_t>();
    std::size_t count = bytes.byte() * std::size_t{128};
    const std::uint8_t seed = bytes.byte();
    count = std::min(count, num_left_);
    num_left_ -= count;
    std::vector<std::int16_t> samples(count);
    std::uint32_t random = seed;
    for (std::size_t i = 0; i < count; ++i) {
      random = random * 1664525u + 1013904223u;
      samples[i] = seed ? static_cast<std::int16_t>(random >> 16) : speech()[(2 * begin + i) % speech().size()];
    }
    if (!as_float) return check(asr_stream_accept_i16(stream_, samples.data(), count));
    std::vector<float> floats(samples.begin(), samples.end());
    for (float& sample : floats) sample /= 32768.0f;
    if (seed == 1 && count) floats[count / 2] = bytes.take<float>();
    check(asr_stream_accept_f32(stream_, floats.data(), count));
  }

  void silence(Bytes& bytes) {
    const std::size_t count = std::min<std::size_t>(bytes.byte() * std::size_t{256}, 2 * num_left_);
    num_left_ -= count / 2;  // costs less than speech
    const std::vector<float> samples(count);
    check(asr_stream_accept_f32(stream_, samples.data(), count));
  }

  void gap(Bytes& bytes) {
    const std::uint8_t kind = bytes.byte();
    check(asr_stream_gap(stream_, kind == 255 ? bytes.take<std::int64_t>() : 100 * kind));
  }

  void end_utterance() { check(asr_stream_end_utterance(stream_)); }
  void finish() { check(asr_stream_finish(stream_)); }

  void take_nothing(Bytes& bytes) {
    require(asr_stream_accept_f32(stream_, nullptr, 1 + bytes.byte()) != ASR_OK, "NULL has no samples");
  }

  void take_events() {
    while ((the_event = asr_stream_next_event(stream_)) != nullptr) take(*the_event);
  }

 private:
  void take_json() {  // of the events that are left
    while (const char* text = asr_stream_next_json(stream_)) {
      const std::string_view json = text;
      require(json.front() == '{' && json.back() == '}', "an event is an object");
      require(asr_stream::is_utf8(json) && json.find_first_of("\n\t\x1b") == json.npos, "JSON is UTF-8 on one line");
      require(json.find(":null") == json.npos, "numbers are finite");
    }
  }

  void note(const Settings& settings) {  // an utterance that has begun still has the former settings
    commands_ |= settings.get("commands") == "true" || asr_settings_get(settings.handle, "own_commands") != nullptr;
    max_alternatives_ = std::max(max_alternatives_, std::stoi(settings.get("max_alternatives")));
  }

  void check(asr_status status) const {
    require(*asr_status_text(status) != '\0', "a status has a text");
    if (!stream_) return require(status == ASR_INVALID_ARGUMENT, "NULL is refused");
    require((*asr_stream_error(stream_) != '\0') == (status != ASR_OK), "a failure has a text");
    require(status == ASR_OK || status == ASR_INVALID_ARGUMENT || status == ASR_FINISHED, "a call does not fail");
    require(asr_stream_sample_offset(stream_) >= 0, "a position is not negative");
    for (std::size_t i = 0; const char* warning = asr_stream_warning(stream_, i); ++i) require(*warning, "a warning");
  }

  void take(const asr_event& event) {
    const bool is_final = event.type == ASR_FINAL, is_partial = event.type == ASR_PARTIAL;
    require(event.type >= ASR_PARTIAL && event.type <= ASR_ERROR, "an event has a type");
    require(event.start_s <= event.end_s, "an event ends after it starts");
    const double position_s = static_cast<double>(asr_stream_sample_offset(stream_)) / ASR_SAMPLE_RATE + 1e-6;
    require(event.end_s <= position_s, "an event ends before the audio");
    require(event.type == ASR_ERROR || event.start_s >= end_of_final_s_ - 1e-9, "finals and gaps do not cross");
    require(!is_final || *event.text || commands_, "a FINAL is not empty");
    require(event.num_stable <= (is_partial ? event.num_words : 0), "words of partials are stable");
    require((event.endpoint != nullptr) == is_final, "a FINAL says what ended it");
    require(event.num_taken_back <= (is_final ? num_finals_ : 0), "finals before this one are taken back");
    require(event.num_alternatives <= static_cast<std::size_t>(is_final ? std::max(max_alternatives_, 0) : 0),
            "alternatives are wanted");
    check_words(event.start_s, event.end_s, event.text, event.words, event.num_words);
    check_words(event.start_s, event.end_s, event.raw, event.raw_words, event.num_raw_words);
    for (std::size_t i = 0; i < event.num_alternatives; ++i) {
      const asr_alternative& alternative = event.alternatives[i];
      // It may have words before and after those of the event.
      check_words(end_of_final_s_, position_s, alternative.text, alternative.words, alternative.num_words);
      require(alternative.confidence >= 0.0f && alternative.confidence <= 1.0f, "a confidence is in [0, 1]");
    }
    if (is_final || event.type == ASR_GAP) end_of_final_s_ = event.end_s;
    if (is_final) num_finals_ += (event.num_words > 0) - event.num_taken_back;
  }

  static void check_words(double start_s, double end_s, const char* text, const asr_word* words, std::size_t count) {
    require((words == nullptr) == (count == 0), "words are NULL when there are none");
    double last_s = start_s;
    const char* rest = text;
    for (const asr_word* word = words; word != words + count; ++word) {
      const char* found = std::strstr(rest, word->text);
      require(found != nullptr, "the words are in the text, in order");
      rest = found + std::strlen(word->text);
      require(word->start_s < word->end_s, "a word ends after it starts");
      require(word->start_s >= last_s - 1e-9, "words do not cross, and are inside their event");
      last_s = word->end_s;
      require(word->confidence > 0.0f && word->confidence <= 1.0f, "a confidence is in (0, 1]");
    }
    require(count == 0 || last_s <= end_s + 1e-9, "words are inside their event");
  }

  asr_stream_handle* stream_ = nullptr;
  std::int32_t rate_ = ASR_SAMPLE_RATE;
  std::size_t num_left_ = kMaxSamples;
  double end_of_final_s_ = 0.0;
  std::size_t num_finals_ = 0;
  bool commands_ = false;
  int max_alternatives_ = 0;
};

void load(Bytes& bytes) {
  asr_model* model = nullptr;
  const asr_status status = asr_model_load_memory(bytes.data(), bytes.size(), nullptr, &model, nullptr, 0);
  require((status == ASR_OK) == (model != nullptr), "a model comes with ASR_OK, and only then");
  asr_model_free(model);
}

void look(Bytes& bytes) {
  const asr_model* model = the_model(bytes.byte() % 2);
  for (std::size_t i = 0; const char* name = asr_model_property_name(model, i); ++i) {
    require(asr_model_property(model, name) != nullptr, "a property that is listed exists");
  }
  const std::string name = list(bytes);
  asr_model_property(model, name.c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  Session session;
  session.open(bytes);
  for (int calls = 0; !bytes.empty() && calls < kMaxCalls; ++calls) {
    switch (bytes.byte() % 12) {
      case 0:
      case 1:
        session.accept(bytes, true);
        break;
      case 2:
      case 3:
        session.accept(bytes, false);
        break;
      case 4:
        session.silence(bytes);
        break;
      case 5:
        session.gap(bytes);
        break;
      case 6:
        session.end_utterance();
        break;
      case 7:
        session.change(bytes);
        break;
      case 8:
        session.finish();
        break;
      case 9:
        session.take_events();
        break;
      case 10:
        session.open(bytes);
        break;
      case 11:
        session.take_nothing(bytes);
        look(bytes);
        load(bytes);
        break;
    }
  }
  session.finish();
  session.take_events();
  return 0;
}
