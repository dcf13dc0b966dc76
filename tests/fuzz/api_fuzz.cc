// Any sequence of C API calls, with any arguments except wrong pointers; checks the guarantees for events.
//
// The environment names the model: ASR_STREAM_FUZZ_MODEL, with the language model ASR_STREAM_FUZZ_LM.
#include <asr_stream/asr_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

asr_model* the_model() {
  static asr_model* model = [] {
    const char* path = std::getenv("ASR_STREAM_FUZZ_MODEL");
    asr_model_options options;
    asr_model_options_init(&options, sizeof options);
    options.lm_path = std::getenv("ASR_STREAM_FUZZ_LM");
    asr_model* loaded = nullptr;
    char error[512];
    if (asr_model_load(path ? path : "", &options, &loaded, error, sizeof error) != ASR_OK) {
      std::fprintf(stderr, "ASR_STREAM_FUZZ_MODEL: %s\n", error);
      std::exit(2);
    }
    return loaded;
  }();
  return model;
}

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return left_; }

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

struct Session {
  asr_stream* stream = nullptr;
  double last_s = 0.0;

  ~Session() { asr_stream_free(stream); }

  void open(Bytes& bytes) {
    asr_stream_free(stream);
    stream = nullptr;
    last_s = 0.0;
    asr_options options;
    asr_options_init(&options, sizeof options);
    asr_assets assets;
    asr_assets_init(&assets, sizeof assets);
    options.chunk_ms = 40 * (1 + bytes.take<std::uint8_t>() % 20);
    options.search = bytes.take<std::uint8_t>() % 4;
    assets.use_lm = options.search != ASR_SEARCH_GREEDY && options.search != ASR_SEARCH_JOINT;
    options.second_pass = bytes.take<std::uint8_t>() % 2;
    options.beam_size = 1 + bytes.take<std::uint8_t>() % 16;
    if (bytes.take<std::uint8_t>() % 8 == 0) {  // any option may have any value
      const std::size_t at = bytes.take<std::uint8_t>() % sizeof options;
      const auto value = bytes.take<std::uint64_t>();
      std::memcpy(reinterpret_cast<char*>(&options) + at, &value, std::min(sizeof value, sizeof options - at));
    }
    char list[17] = {};  // any text, which is rarely valid
    if (const auto kind = bytes.take<std::uint8_t>() % 8; kind < 4) {
      static constexpr char kLetters[] = "AB'\n :\t.5[unk]\xE2\x96\x81\xFF";
      for (char* letter = list; letter != std::end(list) - 1; ++letter) {
        *letter = kLetters[bytes.take<std::uint8_t>() % sizeof kLetters];
      }
      if (kind != 1) assets.hotwords = list;
      if (kind != 0) assets.phrases = list;
    }
    const bool is_other = bytes.take<std::uint8_t>() % 4 == 0;
    const std::int32_t sample_rate = is_other ? 8000 + bytes.take<std::uint16_t>() : ASR_SAMPLE_RATE;
    char error[64];
    const asr_status status = asr_stream_new(the_model(), sample_rate, &options, &assets, &stream, error, sizeof error);
    require((status == ASR_OK) == (stream != nullptr), "a stream comes with ASR_OK, and only then");
    require(status == ASR_OK || std::strlen(error) > 0, "a failure has a text");
  }

  void take_events() {
    while (const asr_event* event = asr_stream_next_event(stream)) {
      require(event->type >= ASR_PARTIAL && event->type <= ASR_ERROR, "an event has a type");
      require(event->start_s <= event->end_s, "an event ends after it starts");
      require(event->type != ASR_FINAL || std::strlen(event->text) > 0, "a FINAL is not empty");
      require(event->type == ASR_PARTIAL || event->type == ASR_ERROR || event->start_s >= last_s - 1e-9,
              "finals and gaps are in order");
      if (event->type == ASR_FINAL || event->type == ASR_GAP) last_s = event->end_s;
      require((event->words == nullptr) == (event->num_words == 0), "words are NULL when there are none");
      require(event->num_stable <= (event->type == ASR_PARTIAL ? event->num_words : 0), "words of partials are stable");
      require((event->endpoint != nullptr) == (event->type == ASR_FINAL), "a FINAL says what ended it");
      for (std::size_t i = 0; i < event->num_words; ++i) {
        const asr_word& word = event->words[i];
        require(std::strstr(event->text, word.text) && word.start_s < word.end_s, "a word is in the text");
        require(word.confidence > 0.0f && word.confidence <= 1.0f, "a confidence is in (0, 1]");
      }
    }
  }
};

// A signal similar to speech, with this many samples.
template <typename Sample>
std::vector<Sample> sound(std::size_t count, std::uint32_t seed, float scale) {
  std::vector<Sample> samples(count);
  for (Sample& sample : samples) {
    seed = seed * 1664525u + 1013904223u;
    sample = static_cast<Sample>(scale * (static_cast<float>(seed >> 8) / 8388608.0f - 1.0f));
  }
  return samples;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  Session session;
  session.open(bytes);
  std::size_t num_left = 24000;  // in samples, because the time is limited
  for (int calls = 0; !bytes.empty() && calls < 64; ++calls) {
    switch (bytes.take<std::uint8_t>() % 10) {
      case 0:
      case 1: {
        const std::size_t count = std::min<std::size_t>(bytes.take<std::uint16_t>() % 12000, num_left);
        auto samples = sound<float>(count, bytes.take<std::uint8_t>(), 0.3f);
        if (count > 2) samples[count / 2] = bytes.take<float>();
        asr_stream_accept_f32(session.stream, samples.data(), count);
        num_left -= count;
        break;
      }
      case 2:
      case 3: {
        const std::size_t count = std::min<std::size_t>(bytes.take<std::uint16_t>() % 12000, num_left);
        const auto samples = sound<std::int16_t>(count, bytes.take<std::uint8_t>(), 20000.0f);
        asr_stream_accept_i16(session.stream, samples.data(), count);
        num_left -= count;
        break;
      }
      case 4:
        asr_stream_gap(session.stream, bytes.take<std::uint8_t>() % 2 ? bytes.take<std::int64_t>() : 100);
        break;
      case 5:
        asr_stream_finish(session.stream);
        break;
      case 6:
        session.take_events();
        break;
      case 7:
        require(asr_stream_error(session.stream) != nullptr && asr_stream_sample_offset(session.stream) >= -1,
                "an error is a text, an offset a number");
        break;
      case 8:
        session.open(bytes);
        break;
      case 9: {
        asr_model* model = nullptr;
        asr_model_load_memory(bytes.data(), bytes.size(), nullptr, &model, nullptr, 0);
        asr_model_free(model);
        asr_stream_accept_f32(session.stream, nullptr, bytes.take<std::uint8_t>());
        break;
      }
    }
  }
  session.take_events();
  return 0;
}
