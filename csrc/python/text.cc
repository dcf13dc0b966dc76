// Text for people in Python: see asr/_core.pyi.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "text/numbers.h"

namespace asr_stream {

namespace py = pybind11;

void bind_text(py::module_& m) {
  using namespace pybind11::literals;
  m.def(
      "format_numbers",
      [](const std::vector<std::string>& words) {
        py::list tokens;
        for (const ShownToken& token : format_numbers(words)) {
          tokens.append(py::make_tuple(token.text, token.first, token.last));
        }
        return tokens;
      },
      "words"_a);
  m.def("num_settled_words", [](const std::vector<std::string>& words) { return num_settled_words(words); }, "words"_a);
}

}  // namespace asr_stream
