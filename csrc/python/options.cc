// The table of options in Python, and values for them.
#include "options.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "segment.h"
#include "text/formatter.h"

namespace asr_stream {

namespace py = pybind11;

namespace {

const char* name(OptionType type) {
  switch (type) {
    case OptionType::kFlag: return "flag";
    case OptionType::kChoice: return "choice";
    case OptionType::kInteger: return "integer";
    case OptionType::kMilliseconds: return "milliseconds";
    case OptionType::kList: return "list";
    case OptionType::kNumber: break;
  }
  return "number";
}

py::object to_python(const Option& option, const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return py::bool_(*flag);
  if (const auto* choice = std::get_if<std::string_view>(&value)) return py::str(choice->data(), choice->size());
  const double number = std::get<double>(value);
  if (option.type == OptionType::kNumber) return py::float_(number);
  return py::int_(static_cast<long>(number));
}

void set(Options& options, const Option& option, const py::handle& value) {
  if (py::isinstance<py::bool_>(value)) return set(options, option.name, value.cast<bool>());
  if (py::isinstance<py::str>(value)) {
    const auto text = value.cast<std::string>();
    return set(options, option.name, std::string_view(text));
  }
  const double number = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    throw py::value_error(std::string(option.name) + " is " + py::repr(value).cast<std::string>() + "; it must be " +
                          allowed(option));
  }
  set(options, option.name, number);
}

// None stands for the default.
Options to_options(const py::kwargs& values) {
  Options options;
  for (const auto& [key, value] : values) {
    const std::string name = key.cast<std::string>();
    const Option* option = find_option(name);
    if (!option) throw py::type_error(no_option(name).what());
    if (!value.is_none()) set(options, *option, value);
  }
  return options;
}

py::object attribute(const Options& options, const std::string& name) {
  const Option* option = find_option(name);
  if (!option) throw py::attribute_error(name);
  return is_unset(options, *option) ? py::none() : to_python(*option, get(options, *option));
}

}  // namespace

void bind_options(py::module_& m) {
  using namespace pybind11::literals;
  py::class_<Option>(m, "Option")
      .def_readonly("name", &Option::name)
      .def_readonly("doc", &Option::doc)
      .def_readonly("low", &Option::low)
      .def_property_readonly("with_low", [](const Option& option) { return option.bracket == '['; })
      .def_readonly("high", &Option::high)
      .def_readonly("of_model", &Option::of_model)
      .def_property_readonly("choices", [](const Option& option) { return py::tuple(py::cast(choices(option))); })
      .def_property_readonly("type", [](const Option& option) { return name(option.type); })
      .def_property_readonly("allowed", &allowed)
      .def_property_readonly("default",
                             [](const Option& option) {
                               const bool is_list = option.type == OptionType::kList;
                               return is_list ? py::none() : to_python(option, default_of(option));
                             })
      .def("parse", [](const Option& option, const std::string& text) {
        Options checked;
        const OptionValue value = parse(option, text);
        set(checked, option.name, value);
        return to_python(option, value);
      }, "text"_a);
  py::dict options;
  for (const Option& option : kOptions) options[option.name] = py::cast(&option, py::return_value_policy::reference);
  m.attr("OPTIONS") = options;

  py::class_<Options>(m, "Options")
      .def(py::init(&to_options))
      .def("__getattr__", &attribute, "name"_a)
      .def("resolved",
           [](const Options& options, const ModelMetadata& metadata) { return resolved(options, metadata); },
           "metadata"_a);

  py::dict calibration;
  Calibration bundled;
  for (const CalibrationRow& row : rows(bundled)) {
    py::dict numbers;
    for (const auto& number : row.numbers) numbers[number.name] = *number.value;
    calibration[row.key] = numbers;
  }
  m.attr("CALIBRATION") = calibration;
  m.def("new_fusion",
        [](const Options& options, std::shared_ptr<const NgramLm> lm, const ModelMetadata& metadata) {
          const py::gil_scoped_release release;  // the lexicon may have to be built
          return std::const_pointer_cast<LmFusion>(new_fusion(options, std::move(lm), metadata));
        },
        "options"_a, "lm"_a, "metadata"_a);
  m.def("new_phrases",
        [](const Options& options, const NgramLm* lm, const ModelMetadata& metadata) {
          const py::gil_scoped_release release;  // words may have to be pronounced
          return std::const_pointer_cast<Phrases>(new_phrases(options, lm, metadata));
        },
        "options"_a, "lm"_a, "metadata"_a);
  m.def("text_options",
        [](const std::string& language, std::shared_ptr<PunctuationMetadata> punctuation,
           const std::vector<WrittenForm>& forms, const py::kwargs& values) {
          return std::const_pointer_cast<TextOptions>(
              text_options(to_options(values), language, std::move(punctuation), forms));
        },
        "language"_a, "punctuation"_a = nullptr, "written_forms"_a = std::vector<WrittenForm>());
  py::class_<SegmentOptions, std::shared_ptr<SegmentOptions>>(m, "SegmentOptions")
      .def(py::init([](const Options& options, const ModelMetadata& metadata, std::shared_ptr<const LmFusion> fusion,
                       std::shared_ptr<const Phrases> phrases,
                       std::shared_ptr<const PunctuationMetadata> punctuation,
                       std::shared_ptr<const NeuralLmMetadata> neural_lm,
                       std::shared_ptr<const DecoderMetadata> decoder, std::int64_t second_pass_window) {
             auto segment = segment_options(options, metadata, {fusion, phrases, punctuation, neural_lm, decoder});
             segment->second_pass_window = second_pass_window;
             const Segment check(segment);
             return segment;
           }),
           "options"_a, "metadata"_a, py::kw_only(), "fusion"_a = nullptr, "phrases"_a = nullptr,
           "punctuation"_a = nullptr, "neural_lm"_a = nullptr, "decoder"_a = nullptr,
           "second_pass_window"_a = kSecondPassWindow)
      .def_readonly("punctuation_warning", &SegmentOptions::punctuation_warning)
      .def_readonly("skipped_lines", &SegmentOptions::skipped_lines);
}

}  // namespace asr_stream
