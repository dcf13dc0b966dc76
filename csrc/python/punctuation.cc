// Case and punctuation in Python: see asr/_core.pyi.
#include "text/punctuation.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/language.h"

namespace asr_stream {

namespace py = pybind11;
using namespace pybind11::literals;

void bind_punctuation(py::module_& m) {
  m.attr("NUM_WORD_FEATURES") = kNumWordFeatures;
  m.attr("NUM_WORD_FEATURE_ROWS") = kNumRows;
  m.attr("NUM_PAUSE_CLASSES") = kNumPauseClasses;
  m.attr("NUM_MARKS") = kNumMarks;
  m.attr("NUM_CASES") = kNumCases;
  m.def(
      "word_features",
      [](const std::vector<std::string>& words) {
        py::array_t<std::int32_t> rows({words.size(), kNumWordFeatures});
        std::int32_t* out = rows.mutable_data();
        for (const std::string& word : words) {
          const WordFeatures features = word_features(word);
          out = std::copy(features.begin(), features.end(), out);
        }
        return rows;
      },
      "words"_a);
  m.def(
      "special_features",
      [](std::string_view unit) {
        const SpecialUnit special = unit == "sentence"    ? SpecialUnit::kSentence
                                    : unit == "continues" ? SpecialUnit::kContinues
                                    : unit == "end"       ? SpecialUnit::kEnd
                                                          : SpecialUnit::kNone;
        if (special == SpecialUnit::kNone) {
          throw py::value_error("unit must be sentence, continues or end, got " + std::string(unit));
        }
        const WordFeatures features = special_features(special);
        return py::array_t<std::int32_t>(kNumWordFeatures, features.data());
      },
      "unit"_a);
  m.def("pause_class", &pause_class, "pause_s"_a);
  py::class_<PunctuationUnits>(m, "PunctuationUnits")
      .def_property_readonly("work",
                             [](const PunctuationUnits& units) {
                               return std::make_shared<Work>(punctuation_work(units));
                             })
      .def_readonly("first_word", &PunctuationUnits::first_word)
      .def_readonly("num_words", &PunctuationUnits::num_words);
  m.def(
      "punctuation_units",
      [](const std::vector<std::string>& words, const std::optional<std::vector<double>>& pauses_s,
         std::optional<bool> continues, bool complete) {
        const SpecialUnit beginning = !continues    ? SpecialUnit::kNone
                                      : *continues ? SpecialUnit::kContinues
                                                   : SpecialUnit::kSentence;
        return punctuation_units(words, pauses_s.value_or(std::vector<double>()), beginning, complete);
      },
      "words"_a, "pauses_s"_a, py::kw_only(), "continues"_a, "complete"_a);
  py::class_<PunctuationMetadata, std::shared_ptr<PunctuationMetadata>>(m, "PunctuationMetadata")
      .def(py::init<const std::map<std::string, std::string>&>(), "properties"_a)
      .def_readonly("look_ahead", &PunctuationMetadata::look_ahead)
      .def_readonly("left_context", &PunctuationMetadata::left_context)
      .def_readonly("mixed", &PunctuationMetadata::mixed);
  m.def(
      "punctuate",
      [](const std::vector<std::string>& words, py::array_t<float, py::array::c_style> mark_probs,
         py::array_t<float, py::array::c_style> case_probs, const MixedCase& mixed, bool continues, bool complete,
         bool has_pauses, std::string_view code) {
        const std::vector<float> marks(mark_probs.data(), mark_probs.data() + mark_probs.size());
        const std::vector<float> cases(case_probs.data(), case_probs.data() + case_probs.size());
        const PunctuationContext context{continues, complete, false, language(code), has_pauses};
        return punctuate(words, marks, cases, mixed, context).words;
      },
      "words"_a, "mark_probs"_a.noconvert(), "case_probs"_a.noconvert(), "mixed"_a, py::kw_only(),
      "continues"_a = false, "complete"_a = true, "has_pauses"_a = false, "language"_a = "en");
  m.def(
      "shown_marks",
      [](const std::vector<std::string>& words, py::array_t<float, py::array::c_style> mark_probs, bool complete,
         bool has_pauses, std::string_view code) {
        const std::vector<float> marks(mark_probs.data(), mark_probs.data() + mark_probs.size());
        const std::vector<float> cases(words.size() * kNumCases);
        const PunctuationContext context{false, complete, false, language(code), has_pauses};
        py::list found;
        for (const Mark mark : punctuate(words, marks, cases, {}, context).marks) found.append(static_cast<int>(mark));
        return found;
      },
      "words"_a, "mark_probs"_a.noconvert(), py::kw_only(), "complete"_a = true, "has_pauses"_a = false,
      "language"_a = "en");
}

}  // namespace asr_stream
