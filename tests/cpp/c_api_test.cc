// The library as an app sees it, through the C API and its wrapper for C++, with networks of fixed rules
// (fake_onnxruntime.cc).
#include <asr_stream/asr_stream.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model_file.h"

namespace {

using Texts = std::vector<std::string>;

asr::Settings with_fake() {
  asr::Settings settings;
  settings.set("onnxruntime", ASR_STREAM_FAKE_ONNXRUNTIME);
  return settings;
}

void give(asr::Settings& settings, const char* name, const std::string& file) {
  settings.set_bytes(name, file.data(), file.size());
}

asr::Settings with_decoder() {
  asr::Settings settings = with_fake();
  give(settings, "decoder", onnx_file(decoder_properties()));
  return settings;
}

asr::Model open(const Properties& properties = model_properties(), const asr::Settings& settings = with_decoder()) {
  const std::string file = onnx_file(properties);
  return asr::Model(file.data(), file.size(), settings);
}

asr::Settings with_punctuation(Properties more = {}) {
  more.insert({{"model_type", "asr_stream_punctuation"}, {"format_version", "1"}, {"look_ahead", "1"},
               {"left_context", "8"}, {"mixed_case", "{}"}, {"fake", "punctuation"}});
  asr::Settings settings = with_decoder();
  give(settings, "punctuation", onnx_file(more));
  return settings;
}

// Noise for "A" (1 s), for "B" (0.5 s), and silence (2 s), this many times.
std::vector<float> speech(std::size_t count = 1) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> noise(-1.0f, 1.0f);
  std::vector<float> samples(count * 56000);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::size_t phase = i % 56000;
    samples[i] = noise(generator) * (phase < 16000 ? 0.5f : phase < 24000 ? 0.003f : 0.0f);
  }
  return samples;
}

std::vector<asr::Event> taken(asr::Stream& stream) {
  std::vector<asr::Event> events;
  while (std::optional<asr::Event> event = stream.next_event()) events.push_back(std::move(*event));
  return events;
}

std::vector<asr::Event> recognize(asr::Stream& stream, const std::vector<float>& samples = speech()) {
  for (std::size_t at = 0; at < samples.size(); at += 1600) {
    stream.accept(samples.data() + at, std::min<std::size_t>(1600, samples.size() - at));
  }
  stream.finish();
  return taken(stream);
}

Texts texts(const std::vector<asr::Event>& events, asr_event_type type) {
  Texts found;
  for (const asr::Event& event : events) {
    if (event.type == type) found.push_back(event.text);
  }
  return found;
}

// The status and the text of what `action` throws.
template <typename Action>
std::pair<asr_status, std::string> failure(Action action) {
  try {
    action();
  } catch (const asr::Error& error) {
    return {error.status(), error.what()};
  }
  return {ASR_OK, ""};
}

#define EXPECT_FAILURE(action, wanted, words)                   \
  do {                                                          \
    const auto [status, text] = failure([&] { (void)(action); }); \
    EXPECT_EQ(status, wanted) << text;                          \
    EXPECT_NE(text.find(words), std::string::npos) << text;     \
  } while (false)

TEST(CApi, AnUtteranceHasPartialsAndAFinal) {
  asr::Stream stream(open());
  const std::vector<asr::Event> events = recognize(stream);
  EXPECT_EQ(texts(events, ASR_PARTIAL), (Texts{"a", "ab"}));
  ASSERT_EQ(events.back().type, ASR_FINAL);
  const asr::Event& last = events.back();
  EXPECT_EQ(last.text, "ab");
  EXPECT_EQ(last.raw, "AB");
  EXPECT_EQ(last.endpoint, "silence_after_speech");
  ASSERT_EQ(last.words.size(), 1u);
  EXPECT_EQ(last.words[0].text, "ab");
  EXPECT_EQ(last.words[0].start_s, last.start_s);
  EXPECT_EQ(last.words[0].end_s, last.end_s);
  EXPECT_NEAR(last.start_s, 0.0, 0.05);
  EXPECT_NEAR(last.end_s, 1.5, 0.1);
  EXPECT_GT(last.words[0].confidence, 0.5f);
  EXPECT_LT(last.words[0].confidence, 1.0f);
  ASSERT_EQ(last.raw_words.size(), 1u);
  EXPECT_EQ(last.raw_words[0].text, "AB");
  EXPECT_TRUE(last.alternatives.empty());
  EXPECT_EQ(last.num_taken_back, 0u);
  for (const asr::Event& event : events) EXPECT_EQ(event.endpoint.empty(), event.type != ASR_FINAL);
  EXPECT_EQ(stream.sample_offset(), 56000);
  EXPECT_TRUE(stream.warnings().empty());
}

TEST(CApi, IntegersAndOtherRatesGiveTheSameWords) {
  const asr::Model model = open();
  asr::Stream of_integers(model);
  std::vector<std::int16_t> samples;
  for (const float sample : speech()) samples.push_back(static_cast<std::int16_t>(sample * 32767));
  of_integers.accept(samples.data(), samples.size());
  of_integers.finish();
  EXPECT_EQ(texts(taken(of_integers), ASR_FINAL), Texts{"ab"});

  asr::Stream doubled(model, {}, 32000);
  std::vector<float> twice;
  for (const float sample : speech()) twice.insert(twice.end(), 2, sample);
  const std::vector<asr::Event> events = recognize(doubled, twice);
  EXPECT_EQ(texts(events, ASR_FINAL), Texts{"ab"});
  EXPECT_NEAR(events.back().end_s, 1.5, 0.1);
  EXPECT_EQ(doubled.sample_offset(), 56000);
}

TEST(CApi, StreamsOfAModelShareNothingAndOutliveIt) {
  std::optional<asr::Model> model = open();
  asr::Stream one(*model), other(*model);
  model.reset();
  const std::vector<float> samples = speech();
  for (std::size_t at = 0; at < samples.size(); at += 8000) {
    one.accept(samples.data() + at, 8000);
    std::vector<float> faint(samples.begin() + static_cast<std::ptrdiff_t>(at),
                             samples.begin() + static_cast<std::ptrdiff_t>(at) + 8000);
    for (float& sample : faint) sample /= 8;  // "B" for a stream that has heard the other one
    other.accept(faint.data(), faint.size());
  }
  one.finish();
  EXPECT_EQ(texts(taken(one), ASR_FINAL), Texts{"ab"});
  other.finish();
  EXPECT_EQ(texts(taken(other), ASR_FINAL), Texts{"ab"});
}

TEST(CApi, EndsUtterancesAndReportsGaps) {
  asr::Stream stream(open());
  const std::vector<float> samples = speech();
  stream.accept(samples.data(), 16000);
  stream.end_utterance();
  EXPECT_EQ(texts(taken(stream), ASR_FINAL), Texts{"a"});
  stream.accept(samples.data(), 24000);
  stream.gap(8000);
  EXPECT_EQ(stream.sample_offset(), 48000);
  const std::vector<asr::Event> events = taken(stream);
  ASSERT_GE(events.size(), 2u);
  const asr::Event &last = events[events.size() - 2], &gap = events.back();
  EXPECT_EQ(last.type, ASR_FINAL);
  EXPECT_EQ(last.text, "ab");
  EXPECT_EQ(last.endpoint, "end_of_audio");
  EXPECT_GE(last.start_s, 1.0);
  EXPECT_EQ(gap.type, ASR_GAP);
  EXPECT_EQ(gap.start_s, 2.5);
  EXPECT_EQ(gap.end_s, 3.0);
  EXPECT_FALSE(gap.text.empty());
  EXPECT_TRUE(gap.words.empty());
}

TEST(CApi, SettingsOfALaterUtteranceMayDiffer) {
  asr::Stream stream(open());
  const std::vector<float> samples = speech();
  stream.accept(samples.data(), 40000);
  asr::Settings settings;
  settings.set("text", "plain").set("mask", "AB\n\x01").set("replace", "nothing");
  stream.change(settings);
  EXPECT_EQ(stream.warnings().size(), 2u);
  stream.accept(samples.data(), 40000);
  stream.finish();
  EXPECT_EQ(texts(taken(stream), ASR_FINAL), (Texts{"ab", "**"}));
}

TEST(CApi, AnEventIsAlsoJson) {
  asr::Stream stream(open());
  const std::vector<float> samples = speech();
  stream.accept(samples.data(), samples.size());
  stream.finish();
  Texts lines;
  while (const char* line = asr_stream_next_json(stream.get())) lines.emplace_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines.back().rfind("{\"type\":\"final\",\"text\":\"ab\"", 0), 0u) << lines.back();
  EXPECT_FALSE(stream.next_event());
}

TEST(CApi, WordsOfCommandsAreOnlyAmongTheRawOnes) {
  asr::Settings settings;
  settings.set("own_commands", "ab -> cap");
  asr::Stream stream(open(), settings);
  const std::vector<asr::Event> events = recognize(stream);
  const asr::Event& last = events.back();
  EXPECT_EQ(last.text, "");
  EXPECT_TRUE(last.words.empty());
  EXPECT_EQ(last.raw, "AB");
  ASSERT_EQ(last.raw_words.size(), 1u);
  EXPECT_EQ(last.raw_words[0].text, "AB");
  EXPECT_NEAR(last.raw_words[0].end_s, 1.5, 0.1);
}

TEST(CApi, AlternativesHaveWordsAndConfidences) {
  asr::Settings settings;
  settings.set("max_alternatives", "3");
  asr::Stream stream(open(), settings);
  const std::vector<asr::Event> events = recognize(stream);
  const asr::Event& last = events.back();
  ASSERT_EQ(last.alternatives.size(), 3u);
  float before = 1.0f;
  for (const asr::Alternative& other : last.alternatives) {
    EXPECT_NE(other.text, "ab");
    std::string joined;
    for (const asr::Word& word : other.words) joined += (joined.empty() ? "" : " ") + word.text;
    EXPECT_EQ(joined, other.text);
    EXPECT_GT(other.confidence, 0.0f);
    EXPECT_LE(other.confidence, before);
    before = other.confidence;
  }
}

TEST(CApi, ADecoderSearchesWithItsOwnCaches) {
  asr::Settings settings;
  settings.set("search", "joint").set("joint_ctc_weight", "0");
  asr::Stream stream(open(), settings);
  EXPECT_EQ(texts(recognize(stream, speech(3)), ASR_FINAL), (Texts{"ab", "ab", "ab"}));
}

TEST(CApi, PunctuationAndCaseComeFromTheirNetwork) {
  asr::Stream stream(open(model_properties(), with_punctuation()));
  const std::vector<asr::Event> events = recognize(stream);
  EXPECT_EQ(events.back().text, "Ab.");
  EXPECT_EQ(events.back().raw, "AB");
}

TEST(CApi, ANetworkThatIsNotTheEncoderMayFail) {
  asr::Stream stream(open(model_properties(), with_punctuation({{"fails", "2"}})));
  const std::vector<asr::Event> events = recognize(stream);
  const Texts errors = texts(events, ASR_ERROR);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_NE(errors[0].find("the network broke"), std::string::npos) << errors[0];
  EXPECT_EQ(errors[0].find("kernel.cc"), std::string::npos) << errors[0];
  EXPECT_EQ(texts(events, ASR_FINAL), Texts{"Ab."});  // it works again
}

TEST(CApi, AStreamWhoseEncoderFailsSaysWhyAndKeepsItsEvents) {
  Properties properties = model_properties();
  properties["fails"] = "4";
  asr::Stream stream(open(properties));
  const std::vector<float> samples = speech();
  stream.accept(samples.data(), 24000);
  EXPECT_FAILURE(stream.accept(samples.data(), 24000), ASR_FAILED, "the network broke");
  EXPECT_FAILURE(stream.accept(samples.data(), 1), ASR_FAILED, "the network broke");
  EXPECT_FAILURE(stream.finish(), ASR_FAILED, "the network broke");
  EXPECT_FALSE(texts(taken(stream), ASR_PARTIAL).empty());
  EXPECT_STREQ(asr_stream_error(stream.get()), "");
}

TEST(CApi, CallsOutOfTurnAreRefused) {
  asr::Stream stream(open());
  const float sample = 0.0f;
  EXPECT_EQ(asr_stream_accept_f32(stream.get(), nullptr, 1), ASR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(asr_stream_error(stream.get()), "samples is NULL"), nullptr);
  EXPECT_EQ(asr_stream_accept_f32(stream.get(), nullptr, 0), ASR_OK);
  EXPECT_STREQ(asr_stream_error(stream.get()), "");
  EXPECT_FAILURE(stream.gap(-1), ASR_INVALID_ARGUMENT, "-1");
  EXPECT_EQ(stream.sample_offset(), 0);
  stream.finish();
  stream.finish();
  EXPECT_FAILURE(stream.accept(&sample, 1), ASR_FINISHED, "finish");
  EXPECT_FAILURE(stream.gap(1), ASR_FINISHED, "finish");
  EXPECT_FAILURE(stream.end_utterance(), ASR_FINISHED, "finish");
}

TEST(CApi, NullIsRefusedOrDoesNothing) {
  EXPECT_EQ(asr_stream_accept_i16(nullptr, nullptr, 0), ASR_INVALID_ARGUMENT);
  EXPECT_EQ(asr_stream_finish(nullptr), ASR_INVALID_ARGUMENT);
  EXPECT_EQ(asr_stream_next_event(nullptr), nullptr);
  EXPECT_EQ(asr_stream_next_json(nullptr), nullptr);
  EXPECT_EQ(asr_stream_warning(nullptr, 0), nullptr);
  EXPECT_STREQ(asr_stream_error(nullptr), "");
  EXPECT_EQ(asr_stream_sample_offset(nullptr), -1);
  EXPECT_EQ(asr_model_property(nullptr, "language"), nullptr);
  EXPECT_EQ(asr_model_property_name(nullptr, 0), nullptr);
  EXPECT_EQ(asr_settings_get(nullptr, "text"), nullptr);
  asr_settings_set_log(nullptr, nullptr, nullptr);
  asr_settings_free(nullptr);
  asr_model_free(nullptr);
  asr_stream_free(nullptr);
  char error[64];
  EXPECT_EQ(asr_settings_set(nullptr, "text", "plain", error, sizeof error), ASR_INVALID_ARGUMENT);
  EXPECT_STREQ(error, "settings is NULL");
  EXPECT_EQ(asr_model_load("model.onnx", nullptr, nullptr, error, sizeof error), ASR_INVALID_ARGUMENT);
  EXPECT_STREQ(error, "model is NULL");
  auto* stream = reinterpret_cast<asr_stream*>(error);
  EXPECT_EQ(asr_stream_new(nullptr, 16000, nullptr, &stream, nullptr, 0), ASR_INVALID_ARGUMENT);
  EXPECT_EQ(stream, nullptr);
}

TEST(CApi, AStreamInUseIsBusy) {
  asr::Settings settings = with_fake();
  struct Seen {
    asr_stream* stream = nullptr;
    Texts texts;
    std::vector<asr_status> statuses;
    std::int64_t offset = 0;
  } seen;
  // The log is written within a call, so this is a second one.
  asr_settings_set_log(settings.get(), [](void* data, asr_log_level level, const char* text) {
    auto& found = *static_cast<Seen*>(data);
    if (level == ASR_LOG_ERROR) found.texts.emplace_back(text);
    if (!found.stream) return;
    found.statuses.push_back(asr_stream_finish(found.stream));
    found.offset = asr_stream_sample_offset(found.stream);
  }, &seen);
  asr::Stream stream(open(model_properties(), settings));
  EXPECT_TRUE(seen.texts.empty());
  seen.stream = stream.get();
  EXPECT_FAILURE(stream.gap(-1), ASR_INVALID_ARGUMENT, "-1");
  EXPECT_EQ(seen.statuses, std::vector<asr_status>{ASR_BUSY});
  EXPECT_EQ(seen.offset, -1);
  EXPECT_EQ(seen.texts.size(), 1u);
  stream.finish();
  EXPECT_EQ(seen.statuses.size(), 1u);
}

TEST(CApi, SettingsAreSetAndReadByName) {
  asr::Settings settings;
  const auto get = [&](const char* name) {
    const char* value = asr_settings_get(settings.get(), name);
    return std::string(value ? value : "NULL");
  };
  EXPECT_EQ(get("beam_size"), "256");
  EXPECT_EQ(get("num_threads"), "1");
  EXPECT_EQ(get("second_pass"), "true");
  for (const char* unset : {"chunk_ms", "hotwords", "lm", "onnxruntime", "no such"}) EXPECT_EQ(get(unset), "NULL");
  settings.set("beam_size", "64").set("search", "beam").set("second_pass", "false").set("hotwords", "a\nb");
  settings.set("silence_after_speech_s", "inf").set("num_threads", "2").set("lm", "words.lm");
  EXPECT_EQ(get("beam_size"), "64");
  EXPECT_EQ(get("search"), "beam");
  EXPECT_EQ(get("second_pass"), "false");
  EXPECT_EQ(get("hotwords"), "a\nb");
  EXPECT_EQ(get("silence_after_speech_s"), "inf");
  EXPECT_EQ(get("num_threads"), "2");
  EXPECT_EQ(get("lm"), "words.lm");
  settings.set_bytes("lm", "bytes", 5);
  EXPECT_EQ(get("lm"), "NULL");
  settings.set("lm", "words.lm");
  for (const char* name : {"beam_size", "num_threads", "lm", "hotwords"}) {
    EXPECT_EQ(asr_settings_set(settings.get(), name, nullptr, nullptr, 0), ASR_OK);
  }
  EXPECT_EQ(get("beam_size"), "256");
  EXPECT_EQ(get("num_threads"), "1");
  EXPECT_EQ(get("lm"), "NULL");
  EXPECT_EQ(get("hotwords"), "NULL");

  EXPECT_FAILURE(settings.set("beam_size", "0"), ASR_INVALID_ARGUMENT,
                 "beam_size is 0; it must be a whole number in [1, 1024]");
  EXPECT_FAILURE(settings.set("beam", "1"), ASR_INVALID_ARGUMENT, "beam_size");  // the nearest name
  EXPECT_FAILURE(settings.set("beam", "1"), ASR_INVALID_ARGUMENT, "num_threads, onnxruntime");
  for (const char* odd : {"1025", "-1", "two", "1 ", ""}) {
    EXPECT_FAILURE(settings.set("num_threads", odd), ASR_INVALID_ARGUMENT, "[0, 1024]");
  }
  EXPECT_FAILURE(settings.set("lm", ""), ASR_INVALID_ARGUMENT, "lm is empty");
  EXPECT_FAILURE(settings.set_bytes("text", "plain", 5), ASR_INVALID_ARGUMENT, "text is no file");
  EXPECT_FAILURE(settings.set_bytes("lm", nullptr, 5), ASR_INVALID_ARGUMENT, "data is NULL");
  EXPECT_FAILURE(settings.set_bytes("lm", "", 0), ASR_FILE_DAMAGED, "the language model is empty");
}

TEST(CApi, ErrorsAreCutBetweenCharacters) {
  asr::Settings settings;
  const std::string value = "\xC3\xA4\xC3\xB6\xC3\xBC";
  char whole[256], cut[256];
  ASSERT_EQ(asr_settings_set(settings.get(), "search", value.c_str(), whole, sizeof whole), ASR_INVALID_ARGUMENT);
  for (std::size_t size = 1; size <= std::strlen(whole); ++size) {
    std::fill_n(cut, sizeof cut, '#');
    ASSERT_EQ(asr_settings_set(settings.get(), "search", value.c_str(), cut, size), ASR_INVALID_ARGUMENT);
    const std::size_t length = std::strlen(cut);
    ASSERT_LT(length, size);
    ASSERT_GE(length + 2, size);
    ASSERT_EQ(cut[size], '#') << size;
    EXPECT_EQ(std::string(whole).compare(0, length, cut), 0);
    EXPECT_NE(static_cast<unsigned char>(whole[length]) & 0xC0, 0x80) << size;
  }
  EXPECT_EQ(asr_settings_set(settings.get(), "search", "x", cut, 0), ASR_INVALID_ARGUMENT);
  EXPECT_EQ(asr_settings_set(settings.get(), "text", "plain", cut, sizeof cut), ASR_OK);
  EXPECT_STREQ(cut, "");
}

TEST(CApi, FilesThatCannotBeReadAreNamed) {
  const std::string here = testing::TempDir() + "asr_stream_c_api_test.onnx";
  EXPECT_FAILURE(asr::Model("/no/such/model.onnx", with_fake()), ASR_FILE_UNREADABLE, "/no/such/model.onnx");
  EXPECT_FAILURE(asr::Model(testing::TempDir(), with_fake()), ASR_FILE_UNREADABLE, "folder");
  const auto write = [&](const std::string& bytes) {
    std::FILE* file = std::fopen(here.c_str(), "wb");
    ASSERT_NE(file, nullptr);
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
  };
  const std::string model = onnx_file(model_properties());
  write(model);
  EXPECT_EQ(asr::Model(here, with_fake()).property("language"), "en");
  write("");
  asr::Settings settings = with_fake();
  settings.set("lm", here);
  EXPECT_FAILURE(open(model_properties(), settings), ASR_FILE_DAMAGED, here + " is empty");
  write("ASRNGRAM and nothing else");
  EXPECT_FAILURE(open(model_properties(), settings), ASR_FILE_DAMAGED, here);
  std::remove(here.c_str());
  asr::Settings elsewhere;
  elsewhere.set("onnxruntime", "/no/such/library.so");
  EXPECT_FAILURE(open(model_properties(), elsewhere), ASR_RUNTIME_UNAVAILABLE, "/no/such/library.so");
}

TEST(CApi, DamagedModelsAreRefused) {
  const std::string file = onnx_file(model_properties());
  for (std::size_t size = 0; size < file.size(); size += 37) {
    EXPECT_FAILURE(asr::Model(file.data(), size, with_fake()), ASR_FILE_DAMAGED, "the model");
  }
  std::string changed = file;
  changed[file.size() - 2] ^= 1;
  EXPECT_FAILURE(asr::Model(changed.data(), changed.size(), with_fake()), ASR_FILE_DAMAGED, "checksum");
  const auto with = [](const char* key, const std::string& value) {
    Properties properties = model_properties();
    properties[key] = value;
    return properties;
  };
  EXPECT_FAILURE(open(with("format_version", "999")), ASR_FILE_DAMAGED, "format_version is '999'");
  EXPECT_FAILURE(open(with("sample_rate", "8000")), ASR_FILE_DAMAGED, "sample_rate is '8000'");
  EXPECT_FAILURE(open(with("fake", "neural_lm")), ASR_FILE_DAMAGED, "its graph takes pieces");
  EXPECT_FAILURE(open(with("states", "loudest float32 N,2")), ASR_FILE_DAMAGED, "another size of loudest");
  EXPECT_FAILURE(open(with("fails", "1")), ASR_FILE_DAMAGED, "its graph cannot be run: the network broke");
  asr::Settings settings = with_fake();
  give(settings, "punctuation", file);
  EXPECT_FAILURE(open(model_properties(), settings), ASR_FILE_DAMAGED, "the model for punctuation");
}

TEST(CApi, StreamsThatTheModelCannotHaveAreRefused) {
  const asr::Model model = open(model_properties(), with_fake());
  asr::Settings joint, beam, both;
  joint.set("search", "joint");
  EXPECT_FAILURE(asr::Stream(model, joint), ASR_INVALID_ARGUMENT, "search joint needs the decoder");
  both.set("search", "beam").set("phrases", "a").set("hotwords", "b");
  EXPECT_FAILURE(asr::Stream(model, both), ASR_INVALID_ARGUMENT, "hotwords");
  beam.set("search", "beam");
  for (const std::int32_t rate : {999, 768001, -1}) {
    EXPECT_FAILURE(asr::Stream(model, beam, rate), ASR_INVALID_ARGUMENT, std::to_string(rate));
  }
  asr::Stream stream(model, beam);
  EXPECT_FAILURE(stream.change(joint), ASR_INVALID_ARGUMENT, "search joint needs the decoder");
  EXPECT_EQ(texts(recognize(stream), ASR_FINAL), Texts{"ab"});  // nothing has changed
}

TEST(CApi, ADecoderIsThatOfTheModel) {
  Properties other = decoder_properties();
  other["tokens"] += "\nC";
  asr::Settings settings = with_fake();
  give(settings, "decoder", onnx_file(other));
  EXPECT_FAILURE(asr::Stream(open(model_properties(), settings)), ASR_INVALID_ARGUMENT, "belongs to another model");
  give(settings, "decoder", onnx_file(model_properties()));
  EXPECT_FAILURE(open(model_properties(), settings), ASR_FILE_DAMAGED, "the decoder");
}

TEST(CApi, AModelHasProperties) {
  Properties with_license = model_properties();
  with_license["license"] = "MIT";
  const asr::Model model = open(with_license);
  EXPECT_EQ(model.property("language"), "en");
  EXPECT_EQ(model.property("sample_rate"), "16000");
  EXPECT_EQ(model.property("chunk_ms"), "640");
  EXPECT_EQ(model.property("left_context_ms"), "2560");
  EXPECT_EQ(model.property("units"), "letters");
  EXPECT_EQ(model.property("license"), "MIT");
  const Texts names = model.property_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"language", "chunk_ms", "license", "tokens"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  EXPECT_EQ(asr_model_property(model.get(), "no such"), nullptr);
  EXPECT_EQ(asr_model_property_name(model.get(), names.size()), nullptr);
  Properties pieces = model_properties();
  pieces["tokens"] += "\nAB";
  EXPECT_EQ(open(pieces).property("units"), "word pieces");
  EXPECT_EQ(open(pieces).property("license"), "");
}

TEST(CApi, StatusesHaveTexts) {
  Texts found;
  for (int status = ASR_OK; status <= ASR_FAILED; ++status) {
    found.emplace_back(asr_status_text(static_cast<asr_status>(status)));
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(std::adjacent_find(found.begin(), found.end()), found.end());
  EXPECT_STREQ(asr_status_text(static_cast<asr_status>(ASR_FAILED + 1)), "unknown status");
  EXPECT_STRNE(asr_version(), "");
}

}  // namespace
