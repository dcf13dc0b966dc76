// The C++ core in JavaScript: metadata, language model, options, streams and the contract, as js/src uses them.
//
// Arrays are copied between JavaScript and C++. JavaScript must free the objects that it creates with `.delete()`. A
// C++ exception becomes an Error.
#include "contract.h"
#include "json.h"
#include "metadata.h"
#include "onnx_file.h"
#include "options.h"
#include "stream.h"

#include <emscripten/bind.h>
#include <emscripten/val.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace asr_stream {
namespace {

using emscripten::typed_memory_view;
using emscripten::val;

// Returns the result of `function`. Converts a C++ exception, which JavaScript would see as a number, to an Error, or
// to a RangeError for an invalid argument.
template <typename Function>
auto guarded(Function function) {
  std::string message;
  const char* type = "Error";
  try {
    return function();
  } catch (const std::exception& error) {
    message = error.what();
    if (dynamic_cast<const std::invalid_argument*>(&error)) type = "RangeError";
  }
  val::global(type).new_(message).throw_();
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

val to_array(const std::vector<std::string>& texts) {
  val array = val::array();
  for (const std::string& text : texts) array.call<void>("push", text);
  return array;
}

std::shared_ptr<NgramLm> make_lm(const val& bytes) {
  return guarded([&] {
    return std::make_shared<NgramLm>(FileBytes(to_vector<std::uint8_t>(bytes)));
  });
}

bool is_texts(const val& value) {
  if (!value.isArray()) return false;
  for (const val& entry : emscripten::vecFromJSArray<val>(value)) {
    if (!entry.isString()) return false;
  }
  return true;
}

// value: a boolean, a number, a string, or an array of strings for a list.
void set_option(Options& options, const std::string& name, const val& value) {
  guarded([&] {
    const bool is_list = option(name).type == OptionType::kList;
    if (is_list ? is_texts(value) : value.isString()) {
      const auto text = is_list ? value.call<std::string>("join", std::string("\n")) : value.as<std::string>();
      return set(options, name, std::string_view(text));
    }
    if (value.isTrue() || value.isFalse()) return set(options, name, value.isTrue());
    if (value.isNumber()) return set(options, name, value.as<double>());
    throw std::invalid_argument(name + " has the wrong type; it must be " + allowed(option(name)));
  });
}

// lm, punctuation, neural_lm, decoder: may be null.
std::shared_ptr<SegmentOptions> make_options(const Options& options, const std::shared_ptr<ModelMetadata>& metadata,
                                             std::shared_ptr<NgramLm> lm,
                                             std::shared_ptr<PunctuationMetadata> punctuation,
                                             std::shared_ptr<NeuralLmMetadata> neural_lm,
                                             std::shared_ptr<DecoderMetadata> decoder) {
  return guarded([&] {
    const Assets assets{new_fusion(options, lm, *metadata), new_phrases(options, lm.get(), *metadata),
                        std::move(punctuation), std::move(neural_lm), std::move(decoder)};
    auto made = segment_options(options, *metadata, assets);
    const Segment check(made);
    return made;
  });
}

val warnings(const SegmentOptions& options) { return to_array(options.warnings); }

std::shared_ptr<Stream> make_stream(std::shared_ptr<SegmentOptions> options) {
  return guarded([&] { return std::make_shared<Stream>(std::move(options)); });
}

template <typename Sample>
void accept(Stream& self, const val& samples, int sample_rate) {
  guarded([&] {
    const std::vector<Sample> audio = to_vector<Sample>(samples);
    self.accept(audio.data(), audio.size(), sample_rate);
  });
}

void gap(Stream& self, double num_samples, int sample_rate) {
  guarded([&] { self.gap(static_cast<std::int64_t>(num_samples), sample_rate); });
}

template <auto method, typename... Arguments>
void call(Stream& self, Arguments... arguments) {
  guarded([&] { (self.*method)(std::move(arguments)...); });
}

// Returns null, or {network, inputs, outputs, state}: inputs of {name, type, shape, data}, names of the outputs, and
// null or {slot, begins, leftContext, keeps}.
val work(const Stream& self) {
  const std::shared_ptr<const Work> work = guarded([&] { return self.work(); });
  if (!work) return val::null();
  val object = val::object(), inputs = val::array(), outputs = val::array(), state = val::null();
  for (const Input& input : work->inputs) {
    val tensor = val::object();
    const auto* integers = std::get_if<std::vector<std::int64_t>>(&input.data);
    tensor.set("name", std::string(input.name));
    tensor.set("type", std::string(integers ? "int64" : "float32"));
    tensor.set("shape", val::array(std::vector<int>(input.shape.begin(), input.shape.end())));
    tensor.set("data", integers ? to_array(std::vector<std::int32_t>(integers->begin(), integers->end()))
                                : to_array(std::get<std::vector<float>>(input.data)));
    inputs.call<void>("push", tensor);
  }
  for (const WantedOutput& output : work->outputs) outputs.call<void>("push", std::string(output.name));
  if (work->state) {
    state = val::object();
    state.set("slot", static_cast<int>(work->state->slot));
    state.set("begins", work->state->begins);
    state.set("leftContext", static_cast<int>(work->state->left_context));
    state.set("keeps", work->state->keep != StateUse::Keep::kNot);
  }
  object.set("network", std::string(names(work->network).name));
  object.set("inputs", inputs);
  object.set("outputs", outputs);
  object.set("state", state);
  return object;
}

// outputs: an array of {data, shape}.
void answer(Stream& self, const val& outputs) {
  guarded([&] {
    std::vector<std::vector<float>> data;
    Answer answer;
    for (std::size_t i = 0; i < outputs["length"].as<std::size_t>(); ++i) {
      const std::vector<std::int32_t> shape = to_vector<std::int32_t>(outputs[i]["shape"]);
      data.push_back(to_vector<float>(outputs[i]["data"]));
      answer.push_back({data.back().data(), {shape.begin(), shape.end()}});
    }
    self.answer(answer);
  });
}

val take_events(Stream& self) {
  val events = val::array();
  for (const Event& event : self.take_events()) {
    events.call<void>("push", val::global("JSON").call<val>("parse", to_json(event, KeyCase::kCamel)));
  }
  return events;
}

// bytes: of an .onnx file.
template <typename Metadata>
std::shared_ptr<Metadata> make_metadata(const val& bytes) {
  const std::vector<char> data = to_vector<char>(bytes);
  return guarded([&] { return std::make_shared<Metadata>(read_onnx_properties({data.data(), data.size()})); });
}

// Name, type and shape of each state of one stream. left_context: in encoder frames.
val states(const ModelMetadata& metadata, int left_context) {
  val array = val::array();
  for (const StateTensor& state : metadata.states) {
    val shape = val::array(), object = val::object();
    for (const std::int64_t size : state.shape(1, left_context)) shape.call<void>("push", static_cast<int>(size));
    object.set("name", state.name);
    object.set("type", std::string(state.is_integer ? "int64" : "float32"));
    object.set("shape", shape);
    array.call<void>("push", object);
  }
  return array;
}

template <std::size_t N>
val names(const char* const (&list)[N]) {
  return to_array(std::vector<std::string>(list, list + N));
}

val contract() {
  val object = val::object();
  object.set("sampleRate", kSampleRate);
  object.set("minSampleRate", kMinSampleRate);
  object.set("maxSampleRate", kMaxSampleRate);
  object.set("encoderFrameMs", kEncoderFrameMs);
  val options = val::object();  // C++ name: JavaScript name
  for (const Option& option : kOptions) options.set(camel_case(option.name), std::string(option.name));
  object.set("options", options);
  return object;
}

}  // namespace

EMSCRIPTEN_BINDINGS(asr_stream) {
  using emscripten::class_;
  emscripten::function("contract", &contract);
  class_<ModelMetadata>("ModelMetadata")
      .smart_ptr<std::shared_ptr<ModelMetadata>>("std::shared_ptr<ModelMetadata>")
      .constructor(&make_metadata<ModelMetadata>)
      .property("inputs", +[](const ModelMetadata& m) { return to_array(m.encoder_inputs()); })
      .property("outputs", +[](const ModelMetadata& m) { return to_array(m.encoder_outputs()); })
      .function("states", &states)
      .property("language", &ModelMetadata::language);
  class_<DecoderMetadata>("DecoderMetadata")
      .smart_ptr<std::shared_ptr<DecoderMetadata>>("std::shared_ptr<DecoderMetadata>")
      .constructor(&make_metadata<DecoderMetadata>)
      .property("inputs", +[](const DecoderMetadata&) { return names(kDecoderInputs); })
      .property("outputs", +[](const DecoderMetadata&) { return names(kDecoderOutputs); });
  class_<Options>("Options")
      .constructor<>()
      .function("set", &set_option);
  class_<NgramLm>("NgramLm")
      .smart_ptr<std::shared_ptr<NgramLm>>("std::shared_ptr<NgramLm>")
      .constructor(&make_lm);
  class_<PunctuationMetadata>("PunctuationMetadata")
      .smart_ptr<std::shared_ptr<PunctuationMetadata>>("std::shared_ptr<PunctuationMetadata>")
      .constructor(&make_metadata<PunctuationMetadata>)
      .property("inputs", +[](const PunctuationMetadata&) { return names(kPunctuationInputs); })
      .property("outputs", +[](const PunctuationMetadata&) { return names(kPunctuationOutputs); });
  class_<NeuralLmMetadata>("NeuralLmMetadata")
      .smart_ptr<std::shared_ptr<NeuralLmMetadata>>("std::shared_ptr<NeuralLmMetadata>")
      .constructor(&make_metadata<NeuralLmMetadata>)
      .property("inputs", +[](const NeuralLmMetadata&) { return names(kNeuralLmInputs); })
      .property("outputs", +[](const NeuralLmMetadata&) { return names(kNeuralLmOutputs); });
  class_<SegmentOptions>("SegmentOptions")
      .smart_ptr<std::shared_ptr<SegmentOptions>>("std::shared_ptr<SegmentOptions>")
      .constructor(&make_options)
      .property("chunkMs", +[](const SegmentOptions& options) { return options.options.chunk_ms; })
      .property("warnings", &warnings);
  class_<Stream>("Stream")
      .smart_ptr<std::shared_ptr<Stream>>("std::shared_ptr<Stream>")
      .constructor(&make_stream)
      .function("acceptFloat32", &accept<float>)
      .function("acceptInt16", &accept<std::int16_t>)
      .function("gap", &gap)
      .function("endUtterance", &call<&Stream::end_utterance>)
      .function("change", &call<&Stream::change, std::shared_ptr<SegmentOptions>>)
      .property("numChanges", +[](const Stream& self) { return static_cast<int>(self.num_changes()); })
      .function("finish", &call<&Stream::finish>)
      .function("work", &work)
      .function("answer", &answer)
      .function("notAnswered", &call<&Stream::not_answered, std::string>)
      .property("failure", +[](const Stream& self) { return self.failure(); })
      .function("fail", &call<&Stream::fail, std::string>)
      .function("takeEvents", &take_events);
}

}  // namespace asr_stream
