// The contract of all runtimes in Python: see asr/_core.pyi.
#include "contract.h"

#include <pybind11/pybind11.h>

#include <cstddef>

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
  m.attr("NUM_MEL_BINS") = kNumBins;
  m.attr("SUBSAMPLING") = kSubsampling;
  m.attr("FEATURE_OVERLAP") = kFeatureOverlap;
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
  m.attr("DECODER_PAST") = to_tuple(kDecoderPast);
  m.attr("DECODER_STEP_OUTPUTS") = to_tuple(kDecoderStepOutputs);
  m.attr("NEURAL_LM_TYPE") = kNeuralLmType;
  m.attr("NEURAL_LM_VERSION") = kNeuralLmVersion;
  m.attr("NEURAL_LM_INPUTS") = to_tuple(kNeuralLmInputs);
  m.attr("NEURAL_LM_OUTPUTS") = to_tuple(kNeuralLmOutputs);
  m.attr("PUNCTUATION_TYPE") = kPunctuationType;
  m.attr("PUNCTUATION_VERSION") = kPunctuationVersion;
  m.attr("PUNCTUATION_INPUTS") = to_tuple(kPunctuationInputs);
  m.attr("PUNCTUATION_OUTPUTS") = to_tuple(kPunctuationOutputs);
}

}  // namespace asr_stream
