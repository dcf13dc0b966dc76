// Words, streams and the resampler in Python: see asr/_core.pyi.
#include "segment.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "frontend/resampler.h"
#include "python/arrays.h"
#include "python/exclusive.h"
#include "stream.h"

namespace asr_stream {
namespace {

using namespace pybind11::literals;

py::list to_list(const std::vector<Word>& words) {
  py::list list;
  for (const Word& word : words) list.append(py::make_tuple(word.text, word.start_s, word.end_s, word.confidence));
  return list;
}

using ExclusiveStream = Exclusive<Stream>;
using ExclusiveResampler = Exclusive<Resampler>;

template <std::int64_t (Segment::*count)() const noexcept>
std::int64_t get_of_segment(ExclusiveStream& self) {
  return self([](Stream& stream) { return (stream.segment().*count)(); });
}

template <typename T>
py::array_t<T> to_array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

// The inputs as arrays in the memory of `work`, by name.
py::dict inputs(const std::shared_ptr<Work>& work) {
  const py::object owner = py::cast(work);
  py::dict found;
  for (const Input& input : work->inputs) {
    std::visit([&](const auto& data) {
      using T = typename std::decay_t<decltype(data)>::value_type;
      py::array_t<T> array(input.shape, data.data(), owner);
      array.attr("setflags")("write"_a = false);
      found[input.name] = std::move(array);
    }, input.data);
  }
  return found;
}

std::shared_ptr<Work> work(ExclusiveStream& self) {
  return std::const_pointer_cast<Work>(self([](Stream& stream) { return stream.work(); }));
}

void answer(ExclusiveStream& self, const std::vector<py::object>& outputs) {
  Answer answer;
  for (const py::object& output : outputs) {
    const py::array array = require_floats(output, "an output");
    answer.push_back({static_cast<const float*>(array.data()), {array.shape(), array.shape() + array.ndim()}});
  }
  self([&](Stream& stream) { stream.answer(answer); });
}

py::list take_events(ExclusiveStream& self) {
  const std::vector<Event> events = self([](Stream& stream) { return stream.take_events(); });
  py::list list;
  for (const Event& event : events) {
    py::list alternatives;
    for (const Alternative& alternative : event.alternatives) {
      alternatives.append(py::make_tuple(alternative.text, to_list(alternative.words), alternative.confidence));
    }
    list.append(py::make_tuple(name(event.type), event.text, event.start_s, event.end_s, to_list(event.words),
                               event.num_stable, event.endpoint, event.raw, to_list(event.raw_words), alternatives,
                               event.num_taken_back));
  }
  return list;
}

}  // namespace

void bind_segment(py::module_& m) {
  m.def("words", [](const Hypothesis& hypothesis, const std::vector<std::string>& tokens, bool with_lm) {
    const Calibration measured;
    return to_list(words(hypothesis, tokens, with_lm ? measured.confidence_with_lm : measured.confidence_without_lm));
  }, "hypothesis"_a, "tokens"_a, "with_lm"_a = false);
  m.def("words", [](const Hypothesis& hypothesis, const LmFusion& fusion, const Hypothesis& letters,
                    const std::vector<std::string>& tokens) {
    return to_list(words(hypothesis, fusion, letters, tokens, Calibration()));
  }, "hypothesis"_a, "fusion"_a, "letters"_a, "tokens"_a);
  m.def("best_rescored", &best_rescored, "hypotheses"_a, "decoder_scores"_a, "ctc_weight"_a);

  py::class_<NeuralLmMetadata, std::shared_ptr<NeuralLmMetadata>>(m, "NeuralLmMetadata")
      .def(py::init<const std::map<std::string, std::string>&>(), "properties"_a)
      .def_readonly("share", &NeuralLmMetadata::share)
      .def_readonly("weight", &NeuralLmMetadata::weight)
      .def(
          "pieces_of", [](const NeuralLmMetadata& lm, const std::string& word) { return lm.pieces.of(word); },
          "word"_a);

  py::class_<StateUse>(m, "StateUse")
      .def_readonly("slot", &StateUse::slot)
      .def_readonly("begins", &StateUse::begins)
      .def_readonly("left_context", &StateUse::left_context)
      .def_property_readonly("stays", [](const StateUse& use) { return use.keep == StateUse::Keep::kStays; })
      .def_property_readonly("for_next", [](const StateUse& use) { return use.keep == StateUse::Keep::kForNextWork; })
      .def_readonly("parents", &StateUse::parents);
  py::class_<Work, std::shared_ptr<Work>>(m, "Work")
      .def_property_readonly("network", [](const Work& work) { return names(work.network).name; })
      .def_property_readonly("inputs", &inputs)
      .def_property_readonly("outputs",
                             [](const Work& work) {
                               py::dict shapes;
                               for (const WantedOutput& output : work.outputs) {
                                 shapes[output.name] = py::tuple(py::cast(output.shape));
                               }
                               return shapes;
                             })
      .def_readonly("state", &Work::state)
      .def_readonly("has_batch", &Work::has_batch)
      .def_readonly("padded_size", &Work::padded_size);

  py::register_exception<StreamFailed>(m, "StreamFailed", PyExc_RuntimeError);
  py::class_<ExclusiveStream>(m, "Stream")
      .def(py::init([](std::shared_ptr<const SegmentOptions> options) {
             return std::make_unique<ExclusiveStream>("Stream", std::move(options));
           }),
           py::arg("options").none(false))
      .def(
          "accept",
          [](ExclusiveStream& self, const py::object& samples, std::int32_t sample_rate) {
            with_samples(samples, [&](auto* data, std::size_t count) {
              self([&](Stream& stream) { stream.accept(data, count, sample_rate); });
            });
          },
          "samples"_a, "sample_rate"_a = kSampleRate)
      .def("gap", exclusive(&Stream::gap), "num_samples"_a, "sample_rate"_a = kSampleRate)
      .def("end_utterance", exclusive(&Stream::end_utterance))
      .def("change", exclusive(&Stream::change), py::arg("options").none(false))
      .def("finish", exclusive(&Stream::finish))
      .def("work", &work)
      .def("answer", &answer, "outputs"_a)
      .def("not_answered", exclusive(&Stream::not_answered), "reason"_a)
      .def_property_readonly("failure", exclusive(&Stream::failure))
      .def("take_events", &take_events)
      .def_property_readonly("sample_offset", exclusive(&Stream::sample_offset))
      .def_property_readonly("num_wanted", exclusive(&Stream::num_wanted))
      .def_property_readonly("num_changes", exclusive(&Stream::num_changes))
      .def_property_readonly("num_samples", &get_of_segment<&Segment::num_samples>)
      .def_property_readonly("num_frames", &get_of_segment<&Segment::num_frames>)
      .def_property_readonly("num_features_kept", &get_of_segment<&Segment::num_features_kept>)
      .def_property_readonly("num_frames_kept", &get_of_segment<&Segment::num_frames_kept>)
      .def_property_readonly("num_bytes_kept", &get_of_segment<&Segment::num_bytes_kept>);

  py::class_<ExclusiveResampler>(m, "Resampler")
      .def(py::init([](std::int32_t sample_rate) {
             return std::make_unique<ExclusiveResampler>("Resampler", sample_rate);
           }),
           "sample_rate"_a)
      .def("accept", [](ExclusiveResampler& self, const py::object& samples) {
        std::vector<float> output;
        with_samples(samples, [&](auto* data, std::size_t count) {
          self([&](Resampler& resampler) { resampler.accept(data, count, output); });
        });
        return to_array(output);
      }, "samples"_a)
      .def("finish", [](ExclusiveResampler& self) {
        std::vector<float> output;
        self([&](Resampler& resampler) { resampler.finish(output); });
        return to_array(output);
      });
}

}  // namespace asr_stream
