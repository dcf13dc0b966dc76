// The constants shared by all runtimes, in Python: see asr/_core.pyi.
#include "contract.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "metadata.h"

namespace asr_stream {

namespace py = pybind11;

namespace {

template <std::size_t N>
py::tuple to_tuple(const char* const (&names)[N]) {
  py::tuple tuple(N);
  for (std::size_t i = 0; i < N; ++i) tuple[i] = py::str(names[i]);
  return tuple;
}

}  // namespace

void bind_contract(py::module_& m) {
  m.attr("SAMPLE_RATE") = kSampleRate;
  m.attr("MIN_SAMPLE_RATE") = kMinSampleRate;
  m.attr("MAX_SAMPLE_RATE") = kMaxSampleRate;
  m.attr("FRAME_SHIFT") = kFrameShift;
  m.attr("FRAME_LENGTH") = kFrameLength;
  m.attr("NUM_MEL_BINS") = kNumBins;
  m.attr("LOW_FREQ_HZ") = kLowFreq;
  m.attr("HIGH_FREQ_HZ") = kHighFreq;
  m.attr("PREEMPHASIS") = kPreemphasis;
  m.attr("SUBSAMPLING") = kSubsampling;
  m.attr("FEATURE_OVERLAP") = kFeatureOverlap;
  m.attr("END_SILENCE") = kEndSilence;
  m.attr("ENCODER_FRAME_MS") = kEncoderFrameMs;
  m.attr("BLANK_ID") = kBlankId;
  m.attr("UNK_ID") = kUnkId;
  m.attr("SOS_EOS_ID") = kSosEosId;
  m.attr("MAX_PHONES") = kMaxPhones;
  m.attr("FORMAT_VERSION") = kFormatVersion;
  m.attr("ENCODER_INPUTS") = to_tuple(kEncoderInputs);
  m.attr("ENCODER_OUTPUTS") = to_tuple(kEncoderOutputs);
  m.attr("PHONE_OUTPUT") = kPhoneOutput;
  m.attr("DECODER_INPUTS") = to_tuple(kDecoderInputs);
  m.attr("DECODER_OUTPUTS") = to_tuple(kDecoderOutputs);
  m.attr("DECODER_STEP_INPUT") = kDecoderStepInput;
  m.attr("DECODER_STEP_OUTPUT") = kDecoderStepOutput;
  m.attr("DECODER_TYPE") = kDecoderType;
  m.attr("DECODER_VERSION") = kDecoderVersion;
  m.attr("NEURAL_LM_TYPE") = kNeuralLmType;
  m.attr("NEURAL_LM_VERSION") = kNeuralLmVersion;
  m.attr("NEURAL_LM_INPUTS") = to_tuple(kNeuralLmInputs);
  m.attr("NEURAL_LM_OUTPUTS") = to_tuple(kNeuralLmOutputs);
  using namespace pybind11::literals;
  py::class_<StateTensor>(m, "StateTensor")
      .def(py::init<const std::string&>(), "row"_a)
      .def_readonly("name", &StateTensor::name)
      .def_readonly("batch_axis", &StateTensor::batch_axis)
      .def_property_readonly("dtype", [](const StateTensor& state) { return state.is_integer ? "int64" : "float32"; })
      .def_property_readonly("sizes",
                             [](const StateTensor& state) {
                               py::list sizes;
                               for (const std::int64_t size : state.sizes) {
                                 if (size >= 0) {
                                   sizes.append(size);
                                 } else {
                                   sizes.append(size == StateTensor::kBatch ? "N" : "C");
                                 }
                               }
                               return sizes;
                             })
      .def(
          "shape",
          [](const StateTensor& state, std::int64_t batch_size, std::int64_t left_context) {
            return py::tuple(py::cast(state.shape(batch_size, left_context)));
          },
          "batch_size"_a, "left_context"_a);
  py::class_<ModelMetadata>(m, "ModelMetadata")
      .def(py::init<const std::map<std::string, std::string>&>(), "properties"_a);
  py::class_<DecoderMetadata, std::shared_ptr<DecoderMetadata>>(m, "DecoderMetadata")
      .def(py::init<const std::map<std::string, std::string>&>(), "properties"_a)
      .def_readonly("tokens", &DecoderMetadata::tokens)
      .def_readonly("dim", &DecoderMetadata::dim)
      .def_readonly("states", &DecoderMetadata::states);
  m.attr("PUNCTUATION_TYPE") = kPunctuationType;
  m.attr("PUNCTUATION_VERSION") = kPunctuationVersion;
  m.attr("PUNCTUATION_INPUTS") = to_tuple(kPunctuationInputs);
  m.attr("PUNCTUATION_OUTPUTS") = to_tuple(kPunctuationOutputs);
}

}  // namespace asr_stream
