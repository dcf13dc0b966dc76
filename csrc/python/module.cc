// asr._core: the C++ front end in Python. Signatures and documentation of the module are in asr/_core.pyi.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/arrays.h"
#include "checksum.h"
#include "frontend/capture_buffer.h"
#include "search/alignment.h"
#include "search/ctc_greedy_search.h"
#include "search/ctc_phrase_search.h"
#include "search/ctc_prefix_beam_search.h"
#include "python/exclusive.h"
#include "frontend/fbank.h"
#include "search/joint_search.h"
#include "search/lm_fusion.h"
#include "onnx_file.h"
#include "search/phrases.h"
#include "search/spelling.h"

namespace asr_stream {
namespace {

using namespace pybind11::literals;

// Copying more samples than this blocks other Python threads for tens of microseconds. For fewer samples, copying is
// cheaper than reacquiring the GIL, which a busy thread may hold for 5 ms.
constexpr std::size_t kLongCopy = std::size_t{1} << 16;

template <typename Copy>
auto copy_samples(std::size_t count, Copy copy) {
  if (count < kLongCopy) return copy();
  const py::gil_scoped_release release;
  return copy();
}

std::size_t ring_write(CaptureBuffer& buffer, const py::object& samples) {
  return with_samples(samples, [&](auto* data, std::size_t count) {
    const ExclusiveUse::Scope scope(buffer.producer, "RingBuffer.write");
    return copy_samples(count, [&] { return buffer.ring.write(data, count); });
  });
}

py::tuple ring_read(CaptureBuffer& buffer, std::int64_t max_samples) {
  if (max_samples < 0) {
    throw py::value_error("max_samples must not be negative, got " + std::to_string(max_samples));
  }
  const ExclusiveUse::Scope scope(buffer.consumer, "RingBuffer.read");
  // An array for the available samples. Its size is at least 1, so that an empty ring can report a gap at its end.
  const std::size_t count =
      std::min(static_cast<std::size_t>(max_samples), std::max<std::size_t>(1, buffer.ring.num_available()));
  py::array_t<float> samples(static_cast<py::ssize_t>(count));
  float* out = samples.mutable_data();
  const RingBuffer::ReadResult result = copy_samples(count, [&] { return buffer.ring.read(out, count); });
  if (result.num_samples != count) samples.resize({static_cast<py::ssize_t>(result.num_samples)});
  return py::make_tuple(std::move(samples), result.gap);
}

void bind_ring_buffer(py::module_& m) {
  py::class_<CaptureBuffer>(m, "RingBuffer")
      .def(py::init<std::int64_t>(), "capacity"_a)
      .def("write", &ring_write, "samples"_a)
      .def("read", &ring_read, "max_samples"_a)
      .def(
          "callback_pointers",
          [](CaptureBuffer& buffer, int channel, int num_channels, int sample_rate) {
            const CaptureBuffer::Callback callback = buffer.callback(channel, num_channels, sample_rate);
            return py::make_tuple(reinterpret_cast<std::uintptr_t>(callback.function),
                                  reinterpret_cast<std::uintptr_t>(callback.user_data));
          },
          "channel"_a = 0, "num_channels"_a = 1, "sample_rate"_a = 16000)
      .def_property_readonly("capacity", [](const CaptureBuffer& b) { return b.ring.capacity(); })
      .def_property_readonly("num_available", [](const CaptureBuffer& b) { return b.ring.num_available(); })
      .def_property_readonly("num_written", [](const CaptureBuffer& b) { return b.ring.num_written(); })
      .def_property_readonly("num_dropped", [](const CaptureBuffer& b) { return b.ring.num_dropped(); })
      .def_property_readonly("sample_offset", [](const CaptureBuffer& b) { return b.ring.sample_offset(); })
      .def_property_readonly("num_callbacks", &CaptureBuffer::num_callbacks)
      .def_property_readonly("num_input_overflows", &CaptureBuffer::num_input_overflows)
      .def_property_readonly("first_callback_ns", &CaptureBuffer::first_callback_ns)
      .def_property_readonly("last_callback_ns", &CaptureBuffer::last_callback_ns);
}

using ExclusiveFbank = Exclusive<Fbank>;

void bind_fbank(py::module_& m) {
  py::class_<ExclusiveFbank>(m, "Fbank")
      .def(py::init([] { return std::make_unique<ExclusiveFbank>("Fbank"); }))
      .def(
          "accept_waveform",
          [](ExclusiveFbank& self, const py::object& samples) {
            with_samples(samples, [&](auto* data, std::size_t count) {
              self([&](Fbank& fbank) { fbank.accept_waveform(data, count); });
            });
          },
          "samples"_a)
      .def("input_finished", exclusive(&Fbank::input_finished))
      .def(
          "get_frames",
          [](ExclusiveFbank& self, std::int64_t start, std::int64_t count) {
            self([&](Fbank& fbank) { fbank.check_range(start, count); });  // before the memory is allocated
            py::array_t<float> frames({static_cast<py::ssize_t>(count), static_cast<py::ssize_t>(kNumBins)});
            float* out = frames.mutable_data();
            self([&](Fbank& fbank) { fbank.get_frames(start, count, out); });
            return frames;
          },
          "start"_a, "count"_a)
      .def("discard_frames", exclusive(&Fbank::discard_frames), "before"_a)
      .def_property_readonly("num_samples", exclusive(&Fbank::num_samples))
      .def_property_readonly("num_frames_ready", exclusive(&Fbank::num_frames_ready))
      .def_property_readonly("first_frame", exclusive(&Fbank::first_frame));
}

template <typename Search>
void bind_search_methods(py::class_<Exclusive<Search>>& cls) {
  using Self = Exclusive<Search>;
  cls.def(
         "advance",
         [](Self& self, const py::object& log_probs) {
           const py::array array = require_floats(log_probs, "log_probs", 2);
           const auto* data = static_cast<const float*>(array.data());
           const std::int64_t num_frames = array.shape(0), vocab_size = array.shape(1);
           self([&](Search& search) { search.advance(data, num_frames, vocab_size); });
         },
         "log_probs"_a)
      .def("hypotheses", exclusive(&Search::hypotheses), "num_best"_a = 1, "finished"_a = false)
      .def("reset", [](Self& self) { self([](Search& search) { search.reset(); }); })
      .def_property_readonly("num_frames", exclusive(&Search::num_frames));
}

void bind_ctc(py::module_& m) {
  py::class_<Hypothesis>(m, "Hypothesis")
      .def(py::init([](std::vector<std::int32_t> tokens, double log_prob, double lm_score,
                       std::vector<std::int64_t> start_frames, std::vector<std::int64_t> end_frames,
                       std::vector<float> confidences, double hotword_score, std::vector<std::int32_t> words) {
             for (const std::size_t size : {start_frames.size(), end_frames.size(), confidences.size()}) {
               if (size != tokens.size()) throw py::value_error("every token needs a start, an end and a confidence");
             }
             return Hypothesis{std::move(tokens), log_prob, lm_score, hotword_score, std::move(start_frames),
                               std::move(end_frames), std::move(confidences), std::move(words)};
           }),
           "tokens"_a, py::kw_only(), "log_prob"_a, "lm_score"_a, "start_frames"_a, "end_frames"_a, "confidences"_a,
           "hotword_score"_a = 0.0, "words"_a = std::vector<std::int32_t>())
      .def_readonly("tokens", &Hypothesis::tokens)
      .def_readonly("log_prob", &Hypothesis::log_prob)
      .def_readonly("lm_score", &Hypothesis::lm_score)
      .def_readonly("hotword_score", &Hypothesis::hotword_score)
      .def_readonly("start_frames", &Hypothesis::start_frames)
      .def_readonly("end_frames", &Hypothesis::end_frames)
      .def_readonly("confidences", &Hypothesis::confidences)
      .def_readonly("words", &Hypothesis::words)
      .def("__repr__", [](const Hypothesis& h) {
        return "Hypothesis(tokens=" + std::string(py::repr(py::cast(h.tokens))) +
               ", log_prob=" + std::string(py::repr(py::float_(h.log_prob))) + ")";
      });

  using Greedy = Exclusive<CtcGreedySearch>;
  py::class_<Greedy> greedy(m, "CtcGreedySearch");
  greedy.def(py::init([] { return std::make_unique<Greedy>("CtcGreedySearch"); }));
  bind_search_methods<CtcGreedySearch>(greedy);

  using Beam = Exclusive<CtcPrefixBeamSearch>;
  py::class_<Beam> beam(m, "CtcPrefixBeamSearch");
  beam.def(py::init([](std::int32_t beam_size, std::int32_t max_tokens_per_frame, double beam_threshold, bool recombine,
                       bool lattice, std::shared_ptr<const LmFusion> lm) {
             const CtcPrefixBeamSearchOptions options{beam_size, max_tokens_per_frame, beam_threshold, recombine,
                                                      lattice};
             return std::make_unique<Beam>("CtcPrefixBeamSearch", options, std::move(lm));
           }),
           py::kw_only(), "beam_size"_a = kBeamSize, "max_tokens_per_frame"_a = 0,
           "beam_threshold"_a = 0.0, "recombine"_a = false, "lattice"_a = false, "lm"_a = nullptr);
  bind_search_methods<CtcPrefixBeamSearch>(beam);
  beam.def("sentences", exclusive(&CtcPrefixBeamSearch::sentences), "num_best"_a);

  py::class_<Phrases, std::shared_ptr<Phrases>>(m, "Phrases")
      .def(py::init([](std::string_view list, const std::vector<std::string>& tokens, float unknown_cost,
                       const std::vector<std::string>& phones, const NgramLm* lm) {
             const py::gil_scoped_release release;  // words may have to be pronounced
             return std::make_shared<Phrases>(list, tokens, unknown_cost, phones, lm);
           }),
           "list"_a, "tokens"_a, "unknown_cost"_a = kUnknownCost, "phones"_a = std::vector<std::string>(),
           "lm"_a = nullptr)
      .def_property_readonly("over_phones", &Phrases::over_phones)
      .def_property_readonly("tokens", &Phrases::tokens);

  using Closed = Exclusive<CtcPhraseSearch>;
  py::class_<Closed> closed(m, "CtcPhraseSearch");
  closed.def(py::init([](std::shared_ptr<const Phrases> phrases) {
               return std::make_unique<Closed>("CtcPhraseSearch", std::move(phrases));
             }),
             py::arg("phrases").none(false));
  bind_search_methods<CtcPhraseSearch>(closed);

  m.def(
      "align_tokens",
      [](const py::object& log_probs, const std::vector<std::int32_t>& tokens) {
        const Rows rows = rows_of(log_probs, "log_probs");
        LogProbChecker().check(rows.data, rows.num_frames, rows.num_columns);
        return align_tokens(rows.data, rows.num_frames, rows.num_columns, tokens);
      },
      "log_probs"_a, "tokens"_a);
  m.def(
      "align_text",
      [](const py::object& log_probs, const std::vector<Spellings>& words, double skipped_cost, double other_cost) {
        const Rows rows = rows_of(log_probs, "log_probs");
        LogProbChecker().check(rows.data, rows.num_frames, rows.num_columns);
        const py::gil_scoped_release others_run;
        return align_text(rows.data, rows.num_frames, rows.num_columns, words, {skipped_cost, other_cost});
      },
      "log_probs"_a, "words"_a, py::kw_only(), "skipped_cost"_a, "other_cost"_a);
  py::class_<TextAlignment>(m, "TextAlignment")
      .def_readonly("hypothesis", &TextAlignment::hypothesis)
      .def_readonly("spellings", &TextAlignment::spellings)
      .def_readonly("others", &TextAlignment::others);

  constexpr JointSearchOptions defaults;
  m.attr("JOINT_BEAM_SIZE") = defaults.beam_size;
  const auto to_array = [](const std::vector<std::int64_t>& values) {
    return py::array_t<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
  };
  py::class_<DecoderStep>(m, "DecoderStep")
      .def_property_readonly("parents", [to_array](const DecoderStep& step) { return to_array(step.parents); })
      .def_property_readonly("tokens", [to_array](const DecoderStep& step) { return to_array(step.tokens); });
  using Joint = Exclusive<JointSearch>;
  py::class_<Joint>(m, "JointSearch")
      .def(py::init([](const py::object& log_probs, double ctc_weight, std::size_t beam_size) {
             const Rows rows = rows_of(log_probs, "log_probs");
             LogProbChecker().check(rows.data, rows.num_frames, rows.num_columns);
             const JointSearchOptions options{ctc_weight, beam_size};
             auto joint = std::make_unique<Joint>("JointSearch", rows.num_columns, options);
             (*joint)([&](JointSearch& search) {
               for (std::int64_t i = 0; i < rows.num_frames; ++i) search.append(rows.data + i * rows.num_columns);
             });
             return joint;
           }),
           "log_probs"_a, py::kw_only(), "ctc_weight"_a = defaults.ctc_weight, "beam_size"_a = defaults.beam_size)
      .def("step", exclusive(&JointSearch::step))
      .def(
          "answer",
          [](Joint& self, const py::object& log_probs) {
            const Rows rows = rows_of(log_probs, "log_probs");
            self([&](JointSearch& search) { search.answer(rows); });
          },
          "log_probs"_a)
      .def("hypotheses", exclusive(&JointSearch::hypotheses), "num_best"_a, "first_frame"_a = 0);
}

void bind_spelling(py::module_& m) {
  m.def(
      "spell",
      [](const std::string& text, const std::vector<std::string>& tokens) {
        return Spelling(tokens).tokens_of(text, "text");
      },
      "text"_a, "tokens"_a);
}

void bind_onnx_file(py::module_& m) {
  m.attr("ONNX_OPSET") = kOnnxOpset;
  m.def(
      "read_onnx_properties",
      [](const py::bytes& data) {
        const std::string_view bytes = data;
        const py::gil_scoped_release release;
        return read_onnx_properties(bytes);
      },
      "data"_a);
  m.def("checksum", [](const py::bytes& data) { return checksum(data); }, "data"_a);
}

}  // namespace

void bind_contract(py::module_& m);     // contract.cc
void bind_lm(py::module_& m);           // lm.cc
void bind_options(py::module_& m);      // options.cc
void bind_punctuation(py::module_& m);  // punctuation.cc
void bind_segment(py::module_& m);      // segment.cc
void bind_text(py::module_& m);         // text.cc

PYBIND11_MODULE(_core, m) {
  m.doc() = "Streaming front end of asr-stream: ring buffer, log-mel filterbank, CTC search, endpointing.";
  bind_contract(m);
  bind_ring_buffer(m);
  bind_fbank(m);
  bind_lm(m);
  bind_ctc(m);
  bind_spelling(m);
  bind_options(m);
  bind_segment(m);
  bind_punctuation(m);
  bind_text(m);
  bind_onnx_file(m);
}

}  // namespace asr_stream
