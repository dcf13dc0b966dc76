// The C++ core in JavaScript: language model, options and Segment, as js/src/segment.js uses them.
//
// Arrays are copied at the border. JavaScript frees what it makes by `.delete()`. A C++ exception becomes an Error.
#include "onnx_file.h"
#include "segment.h"

#include <emscripten/bind.h>
#include <emscripten/val.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace asr_stream {
namespace {

using emscripten::typed_memory_view;
using emscripten::val;

// What `function` gives; a C++ exception, of which JavaScript would see a number, leaves as an Error.
template <typename Function>
auto guarded(Function function) {
  std::string message;
  try {
    return function();
  } catch (const std::exception& error) {
    message = error.what();
  }
  val::global("Error").new_(message).throw_();
}

template <typename Number>
std::vector<Number> to_vector(const val& array) {
  std::vector<Number> numbers(array["length"].as<std::size_t>());
  val(typed_memory_view(numbers.size(), numbers.data())).call<void>("set", array);
  return numbers;
}

val to_array(const std::vector<float>& numbers) {
  return val::global("Float32Array").new_(typed_memory_view(numbers.size(), numbers.data()));
}

val to_array(const std::vector<std::int32_t>& numbers) {
  return val::global("Int32Array").new_(typed_memory_view(numbers.size(), numbers.data()));
}

std::shared_ptr<NgramLm> make_lm(const val& bytes) {
  return guarded([&] {
    const std::vector<std::uint8_t> data = to_vector<std::uint8_t>(bytes);
    return std::make_shared<NgramLm>(data.data(), data.size());
  });
}

SegmentOptions::Search to_search(const std::string& name) {
  return name == "greedy" ? SegmentOptions::Search::kGreedy
         : name == "beam" ? SegmentOptions::Search::kBeam
                          : SegmentOptions::Search::kRescore;
}

// Where `values` has `name`, `target` becomes its value: defaults stand in C++.
template <typename Value>
void take(const val& values, const char* name, Value& target) {
  if (values.hasOwnProperty(name)) target = values[name].as<Value>();
}

// `values`: an object of js/src/recognizer.js, which has checked names and kinds.
std::shared_ptr<SegmentOptions> make_options(const val& values, std::shared_ptr<NgramLm> lm) {
  return guarded([&] {
    auto options = std::make_shared<SegmentOptions>();
    options->tokens = emscripten::vecFromJSArray<std::string>(values["tokens"]);
    options->chunk_size = values["chunkSize"].as<int>();
    options->search = to_search(values["search"].as<std::string>());
    options->rescore_ctc_weight = values["rescoreCtcWeight"].as<double>();
    take(values, "secondPass", options->second_pass);
    take(values, "beamSize", options->beam.beam_size);
    take(values, "silenceAfterSpeechS", options->endpointer.silence_after_speech_s);
    take(values, "silenceWithoutSpeechS", options->endpointer.silence_without_speech_s);
    take(values, "maxUtteranceS", options->endpointer.max_utterance_s);
    float hotword_boost = kHotwordBoost, unknown_cost = kUnknownCost;
    take(values, "hotwordBoost", hotword_boost);
    take(values, "unknownCost", unknown_cost);
    std::shared_ptr<const Hotwords> hotwords;
    if (values.hasOwnProperty("hotwords")) {
      const auto list = values["hotwords"].as<std::string>();
      hotwords = std::make_shared<const Hotwords>(list, options->tokens, hotword_boost);
    }
    if (values.hasOwnProperty("phrases")) {
      const auto list = values["phrases"].as<std::string>();
      options->phrases = std::make_shared<const Phrases>(list, options->tokens, unknown_cost);
      lm = nullptr;  // has no say
    }
    if (lm || hotwords) {
      LmFusionOptions weights;
      take(values["lmWeights"], "weight", weights.weight);
      take(values["lmWeights"], "wordBonus", weights.word_bonus);
      take(values["lmWeights"], "oovPenalty", weights.oov_penalty);
      take(values["lmWeights"], "priorWeight", weights.prior_weight);
      options->fusion = std::make_shared<LmFusion>(std::move(lm), options->tokens, weights, std::move(hotwords));
    }
    const Segment check(options);
    return options;
  });
}

std::shared_ptr<Segment> make_segment(std::shared_ptr<SegmentOptions> options, double start_s) {
  return guarded([&] { return std::make_shared<Segment>(std::move(options), start_s); });
}

template <typename Sample>
int accept(Segment& self, const val& samples) {
  const std::vector<Sample> audio = to_vector<Sample>(samples);
  return guarded([&] { return static_cast<int>(self.accept(audio.data(), audio.size())); });
}

void finish(Segment& self) {
  guarded([&] { self.finish(); });
}

// null, or a step {features, numFrames, numValid, begins, secondPass}, or a scoring {tokens, encoderOut, numFrames}.
val work(const Segment& self) {
  const Work* work = self.work();
  if (!work) return val::null();
  val object = val::object();
  if (const auto* step = std::get_if<EncoderStep>(work)) {
    object.set("features", to_array(step->features));
    object.set("numFrames", static_cast<int>(step->num_frames));
    object.set("numValid", static_cast<int>(step->num_valid));
    object.set("begins", step->begins);
    object.set("secondPass", step->second_pass);
  } else {
    const auto& scoring = std::get<DecoderScoring>(*work);
    val tokens = val::array();
    for (const auto& row : scoring.tokens) tokens.call<void>("push", to_array(row));
    object.set("tokens", tokens);
    object.set("encoderOut", to_array(scoring.encoder_out));
    object.set("numFrames", static_cast<int>(scoring.num_frames));
  }
  return object;
}

void stepped(Segment& self, const val& log_probs, const val& encoder_out, int num_frames) {
  const std::vector<float> rows = to_vector<float>(log_probs), vectors = to_vector<float>(encoder_out);
  const auto width = [num_frames](const std::vector<float>& v) { return static_cast<std::int64_t>(v.size()) / num_frames; };
  guarded([&] { self.stepped(rows.data(), num_frames, width(rows), vectors.data(), width(vectors)); });
}

void scored(Segment& self, const val& scores) {
  const std::vector<float> numbers = to_vector<float>(scores);
  guarded([&] { self.scored(numbers); });
}

const char* name(Event::Type type) {
  return type == Event::Type::kPartial ? "partial" : type == Event::Type::kFinal ? "final" : "error";
}

val span(double start_s, double end_s) {
  val object = val::object();
  object.set("start", start_s);
  object.set("end", end_s);
  return object;
}

val take_events(Segment& self) {
  val events = val::array();
  for (const Event& event : self.take_events()) {
    val words = val::array();
    for (const Word& word : event.words) {
      val object = span(word.start_s, word.end_s);
      object.set("word", word.text);
      object.set("confidence", word.confidence);
      words.call<void>("push", object);
    }
    val object = span(event.start_s, event.end_s);
    object.set("type", std::string(name(event.type)));
    object.set("text", event.text);
    object.set("words", words);
    if (event.type == Event::Type::kPartial) object.set("numStable", static_cast<int>(event.num_stable));
    if (event.endpoint) object.set("endpoint", std::string(event.endpoint));
    events.call<void>("push", object);
  }
  return events;
}

// {key: value} of an .onnx file, which is looked over: see onnx_file.h.
val read_properties(const val& bytes) {
  const std::vector<char> data = to_vector<char>(bytes);
  const auto properties = guarded([&] { return read_onnx_properties({data.data(), data.size()}); });
  val object = val::object();
  for (const auto& [key, value] : properties) object.set(key, value);
  return object;
}

void add_nonfinite(Segment& self, int count) { self.add_nonfinite(count); }

}  // namespace

EMSCRIPTEN_BINDINGS(asr_stream) {
  using emscripten::class_;
  emscripten::function("readOnnxProperties", &read_properties);
  class_<NgramLm>("NgramLm")
      .smart_ptr<std::shared_ptr<NgramLm>>("std::shared_ptr<NgramLm>")
      .constructor(&make_lm);
  class_<SegmentOptions>("SegmentOptions")
      .smart_ptr<std::shared_ptr<SegmentOptions>>("std::shared_ptr<SegmentOptions>")
      .constructor(&make_options);
  class_<Segment>("Segment")
      .smart_ptr<std::shared_ptr<Segment>>("std::shared_ptr<Segment>")
      .constructor(&make_segment)
      .function("acceptFloat32", &accept<float>)
      .function("acceptInt16", &accept<std::int16_t>)
      .function("finish", &finish)
      .function("work", &work)
      .function("stepped", &stepped)
      .function("scored", &scored)
      .function("takeEvents", &take_events)
      .function("addNonfinite", &add_nonfinite);
}

}  // namespace asr_stream
