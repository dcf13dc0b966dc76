// Language models, pronunciations and hotwords in Python: see asr/_core.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/arrays.h"
#include "search/g2p.h"
#include "search/hotwords.h"
#include "search/lm_fusion.h"
#include "search/ngram_lm.h"

namespace asr_stream {
namespace {

using namespace pybind11::literals;

std::uint32_t num_children(const NgramLm::Level& level, std::size_t i) {
  const auto [begin, end] = level.children[i];
  return end - begin;
}

py::tuple level(const NgramLm& lm, std::size_t order) {
  if (order < 1 || order > lm.order()) {
    throw py::value_error("order is " + std::to_string(order) + "; expected 1 to " + std::to_string(lm.order()));
  }
  const NgramLm::Level& level = lm.level(order);
  const auto count = static_cast<py::ssize_t>(level.count);
  py::array_t<std::int64_t> words(count), children(count);
  py::array_t<float> log_probs(count), backoffs(count);
  for (std::size_t i = 0; i < level.count; ++i) {
    const auto k = static_cast<py::ssize_t>(i);
    const auto word = static_cast<std::int32_t>(i);
    words.mutable_at(k) = order == 1 ? word : level.words[i];
    log_probs.mutable_at(k) = order == 1 ? lm.unigram_log_prob(word) : level.log_probs[i];
    backoffs.mutable_at(k) = order < lm.order() ? level.backoffs[i] : 0.0f;
    children.mutable_at(k) = order < lm.order() ? num_children(level, i) : 0;
  }
  return py::make_tuple(std::move(words), std::move(log_probs), std::move(backoffs), std::move(children));
}

}  // namespace

void bind_lm(py::module_& m) {
  py::class_<NgramLm, std::shared_ptr<NgramLm>>(m, "NgramLm")
      .def(py::init([](const py::object& data) {
             FileBytes file = file_bytes(data, "data");
             const py::gil_scoped_release release;
             return std::make_shared<NgramLm>(std::move(file));
           }),
           "data"_a)
      .def(
          "log_probs",
          [](const NgramLm& lm, const std::vector<std::string>& words) {
            std::vector<float> result;
            NgramLm::State state = lm.begin();
            for (const std::string& word : words) result.push_back(lm.advance(state, lm.find(word)));
            result.push_back(lm.advance(state, lm.end_of_sentence()));
            return result;
          },
          "words"_a)
      .def("__contains__",
           [](const NgramLm& lm, const std::string& word) { return lm.find(word) != lm.unknown(); })
      .def_property_readonly("phones", &NgramLm::phones)
      .def(
          "pronunciations",
          [](const NgramLm& lm, const std::string& word) {
            std::vector<std::vector<std::string>> result;
            const std::int32_t number = lm.find(word);
            if (number == lm.unknown()) return result;
            for (const std::string_view bytes : lm.pronunciations(number)) {
              result.emplace_back();
              for (const char byte : bytes) {
                result.back().push_back(lm.phones()[static_cast<std::uint8_t>(byte) - NgramLm::kFirstPhone]);
              }
            }
            return result;
          },
          "word"_a)
      .def_property_readonly("pronunciations_size", &NgramLm::pronunciations_size)
      .def_property_readonly("g2p",
                             [](const NgramLm& lm) {
                               return py::bytes(lm.g2p().view());
                             })
      .def_property_readonly("num_ngrams", [](const NgramLm& lm) {
        std::vector<std::size_t> counts;
        for (std::size_t n = 1; n <= lm.order(); ++n) counts.push_back(lm.num_ngrams(n));
        return counts;
      })
      .def("level", &level, "order"_a);

  py::class_<G2p, std::shared_ptr<G2p>>(m, "G2p")
      .def(py::init([](const py::object& data) {
             auto g2p = std::make_shared<G2p>(file_bytes(data, "data"));
             py::cast(g2p->phones());  // raises UnicodeDecodeError, a ValueError, for names that are not UTF-8
             return g2p;
           }),
           "data"_a)
      .def_property_readonly("phones", &G2p::phones)
      .def(
          "pronounce",
          [](const G2p& g2p, const std::string& word, int num_best) {
            std::vector<std::pair<std::vector<std::int32_t>, double>> result;
            for (G2p::Pronunciation& p : g2p.pronounce(word, num_best)) {
              result.emplace_back(std::move(p.phones), p.log_prob);
            }
            return result;
          },
          "word"_a, "num_best"_a = 1);

  py::class_<Hotwords, std::shared_ptr<Hotwords>>(m, "Hotwords")
      .def(py::init([](std::string_view list, const std::vector<std::string>& tokens, float boost,
                       std::shared_ptr<const NgramLm> lm) {
             const py::gil_scoped_release release;  // pronouncing them takes long
             return std::make_shared<Hotwords>(list, tokens, boost, lm.get());
           }),
           "list"_a, "tokens"_a, "boost"_a = kHotwordBoost, "lm"_a = nullptr)
      .def_property_readonly("warnings", &Hotwords::warnings);

  constexpr LmFusionOptions defaults;
  py::class_<LmFusion, std::shared_ptr<LmFusion>>(m, "LmFusion")
      .def(py::init([](std::shared_ptr<const NgramLm> lm, const std::vector<std::string>& tokens, float weight,
                       float word_bonus, float oov_penalty, float prior_weight,
                       std::shared_ptr<const Hotwords> hotwords, const std::vector<std::string>& phones) {
             const LmFusionOptions options{weight, word_bonus, oov_penalty, prior_weight};
             const py::gil_scoped_release release;  // the lexicon may have to be built
             return std::make_shared<LmFusion>(std::move(lm), tokens, options, std::move(hotwords), phones);
           }),
           "lm"_a, "tokens"_a, py::kw_only(), "weight"_a = defaults.weight, "word_bonus"_a = defaults.word_bonus,
           "oov_penalty"_a = defaults.oov_penalty, "prior_weight"_a = defaults.prior_weight, "hotwords"_a = nullptr,
           "phones"_a = std::vector<std::string>())
      .def_property_readonly("over_phones", &LmFusion::over_phones)
      .def_property_readonly("tokens", &LmFusion::tokens)
      .def("prior_gain", &LmFusion::prior_gain, "before"_a, "token"_a)
      .def_readonly_static("PAUSE_LOG_PROB", &LmFusion::kPauseLogProb)
      .def("text", [](const LmFusion& fusion, std::int32_t word) { return std::string(fusion.text(word)); }, "word"_a);
}

}  // namespace asr_stream
