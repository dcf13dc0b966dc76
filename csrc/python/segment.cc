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

py::array_t<float> to_array(const std::vector<float>& values, std::int64_t num_rows) {
  const std::int64_t num_columns = num_rows ? static_cast<std::int64_t>(values.size()) / num_rows : 0;
  py::array_t<float> array({static_cast<py::ssize_t>(num_rows), static_cast<py::ssize_t>(num_columns)});
  std::copy(values.begin(), values.end(), array.mutable_data());
  return array;
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

// Copies the answer while the object is held, because another thread may use the object as soon as it is released.
py::object work(ExclusiveStream& self) {
  std::unique_ptr<Work> copy = self([](Stream& stream) {
    const Work* work = stream.work();
    return work ? std::make_unique<Work>(*work) : nullptr;
  });
  if (!copy) return py::none();
  return std::visit([](auto& kind) -> py::object { return py::cast(std::move(kind)); }, *copy);
}

void punctuated(ExclusiveStream& self, const py::object& mark_probs, const py::object& case_probs) {
  const py::array marks = require_rows(mark_probs, "mark_probs"), cases = require_rows(case_probs, "case_probs");
  const auto numbers = [](const py::array& array) {
    const auto* data = static_cast<const float*>(array.data());
    return std::vector<float>(data, data + array.size());
  };
  const std::vector<float> mark_numbers = numbers(marks), case_numbers = numbers(cases);
  self([&](Stream& stream) { stream.punctuated(mark_numbers, case_numbers); });
}

void stepped(ExclusiveStream& self, const py::object& log_probs, const py::object& encoder_out,
             const py::object& phone_log_probs) {
  const Rows tokens = rows_of(log_probs, "log_probs"), vectors = rows_of(encoder_out, "encoder_out");
  const Rows phones = phone_log_probs.is_none() ? Rows{} : rows_of(phone_log_probs, "phone_log_probs");
  self([&](Stream& stream) { stream.stepped(tokens, vectors, phones); });
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

  py::class_<EncoderStep>(m, "EncoderStep")
      .def_readonly("view", &EncoderStep::view)
      .def_readonly("begins", &EncoderStep::begins)
      .def_readonly("ends", &EncoderStep::ends)
      .def_readonly("num_valid", &EncoderStep::num_valid)
      .def_readonly("num_frames", &EncoderStep::num_frames)
      .def_property_readonly("features", [](const EncoderStep& s) { return to_array(s.features, s.num_frames); });
  py::class_<NeuralLmMetadata, std::shared_ptr<NeuralLmMetadata>>(m, "NeuralLmMetadata")
      .def(py::init<const std::map<std::string, std::string>&>(), "properties"_a)
      .def_readonly("share", &NeuralLmMetadata::share)
      .def_readonly("weight", &NeuralLmMetadata::weight)
      .def(
          "pieces_of", [](const NeuralLmMetadata& lm, const std::string& word) { return lm.pieces.of(word); },
          "word"_a);

  py::class_<PieceTree>(m, "PieceTree")
      .def_property_readonly("pieces", [](const PieceTree& tree) { return to_array(tree.pieces); })
      .def_property_readonly("parents", [](const PieceTree& tree) { return to_array(tree.parents); })
      .def_property_readonly("depths", [](const PieceTree& tree) { return to_array(tree.depths); })
      .def_property_readonly("ends", [](const PieceTree& tree) { return to_array(tree.ends); });

  py::class_<DecoderScoring>(m, "DecoderScoring")
      .def_readonly("tokens", &DecoderScoring::tokens)
      .def_property_readonly("encoder_out",
                             [](const DecoderScoring& s) { return to_array(s.encoder_out, s.num_frames); });

  py::class_<DecoderStep>(m, "DecoderStep")
      .def_property_readonly("encoder_out", [](const DecoderStep& s) -> py::object {
        return s.begins() ? py::object(to_array(s.encoder_out, s.num_frames)) : py::none();
      })
      .def_property_readonly("parents", [](const DecoderStep& s) { return to_array(s.parents); })
      .def_property_readonly("tokens", [](const DecoderStep& s) { return to_array(s.tokens); });

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
      .def("stepped", &stepped, "log_probs"_a, "encoder_out"_a, "phone_log_probs"_a = py::none())
      .def("scored", exclusive(&Stream::scored), "scores"_a)
      .def(
          "decoded",
          [](ExclusiveStream& self, const py::object& log_probs) {
            const Rows rows = rows_of(log_probs, "log_probs");
            self([&](Stream& stream) { stream.decoded(rows); });
          },
          "log_probs"_a)
      .def("lm_scored", exclusive(&Stream::lm_scored), "log_probs"_a)
      .def("punctuated", &punctuated, "mark_probs"_a, "case_probs"_a)
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
