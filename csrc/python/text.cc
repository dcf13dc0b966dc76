// Text for people in Python: see asr/_core.pyi.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "text/formatter.h"
#include "text/language.h"

namespace asr_stream {

namespace py = pybind11;

namespace {

using WordTuple = std::tuple<std::string, double, double, float>;

std::vector<Word> to_words(const std::vector<WordTuple>& tuples) {
  std::vector<Word> words;
  for (const auto& [text, start_s, end_s, confidence] : tuples) words.push_back({text, start_s, end_s, confidence});
  return words;
}

py::tuple to_tuple(const ShownText& text) {
  py::list words;
  for (const Word& word : text.words) {
    words.append(py::make_tuple(word.text, word.start_s, word.end_s, word.confidence));
  }
  return py::make_tuple(words, text.num_stable, text.num_taken_back);
}

std::optional<PunctuationRun> copied(const PunctuationRun* run) {
  return run ? std::optional<PunctuationRun>(*run) : std::nullopt;
}

}  // namespace

void bind_text(py::module_& m) {
  using namespace pybind11::literals;
  m.def("is_language", &is_language, "code"_a);
  m.def(
      "language_name",
      [](std::string_view code) {
        const Language* known = language(code);
        return known ? std::string(known->name) : "";
      },
      "code"_a);
  m.def(
      "format_numbers",
      [](const std::vector<std::string>& words, std::string_view code) {
        const Language* known = language(code);
        if (!known) throw py::value_error("no rules for the numbers of language " + std::string(code));
        py::list tokens;
        for (const ShownToken& token : known->numbers(words, 0, 0, nullptr)) {
          tokens.append(py::make_tuple(token.text, token.first, token.last));
        }
        return tokens;
      },
      "words"_a, "language"_a = "en");
  py::class_<TextOptions, std::shared_ptr<TextOptions>>(m, "TextOptions")
      .def_readonly("warnings", &TextOptions::warnings);
  py::class_<PunctuationRun>(m, "PunctuationRun")
      .def_readonly("words", &PunctuationRun::words)
      .def_readonly("pauses_s", &PunctuationRun::pauses_s)
      .def_readonly("complete", &PunctuationRun::complete)
      .def_property_readonly("continues", [](const PunctuationRun& run) -> std::optional<bool> {
        if (run.beginning == SpecialUnit::kNone) return std::nullopt;
        return run.beginning == SpecialUnit::kContinues;
      });
  py::class_<TextFormatter>(m, "TextFormatter")
      .def(py::init([](std::shared_ptr<TextOptions> options) { return TextFormatter(std::move(options)); }),
           py::arg("options").none(false))
      .def("partial",
           [](TextFormatter& self, const std::vector<WordTuple>& words, std::size_t num_stable) {
             return copied(self.partial(to_words(words), std::min(num_stable, words.size())));
           },
           "words"_a, "num_stable"_a)
      .def("final",
           [](TextFormatter& self, const std::vector<WordTuple>& words, bool is_cut) {
             return copied(self.final(to_words(words), is_cut));
           },
           "words"_a, "is_cut"_a = false)
      .def("shown",
           [](TextFormatter& self, const std::vector<float>& mark_probs, const std::vector<float>& case_probs) {
             return to_tuple(self.shown(mark_probs, case_probs));
           },
           "mark_probs"_a = std::vector<float>(), "case_probs"_a = std::vector<float>())
      .def("reset", &TextFormatter::reset);
}

}  // namespace asr_stream
