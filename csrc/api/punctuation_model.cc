#include "api/punctuation_model.h"

#include <cstdint>
#include <stdexcept>

#include "contract.h"

namespace asr_stream {

PunctuationModel::PunctuationModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name,
                                   int num_threads)
    : NetworkFile(runtime, onnx, name, num_threads, kPunctuationInputs, kPunctuationOutputs) {
  undamaged<std::runtime_error>(name, " is damaged: its graph cannot be run", [this] {
    run(punctuation_units({"so"}, {}, SpecialUnit::kSentence, true));  // the first run takes several times as long
  });
}

PunctuationModel::Answer PunctuationModel::run(const PunctuationUnits& units) const {
  const auto num_units = static_cast<std::int64_t>(units.pauses.size());
  const std::vector<std::int64_t> count{num_units};
  const Tensor features =
      Tensor::view(runtime_, units.features, {1, num_units, static_cast<std::int64_t>(kNumWordFeatures)});
  const Tensor pauses = Tensor::view(runtime_, units.pauses, {1, num_units});
  const Tensor num_valid = Tensor::view(runtime_, count, {1});
  const std::vector<Tensor> outputs = session_.run({&features, &pauses, &num_valid});
  const auto numbers = [&](std::size_t index, std::size_t width) {
    const Shape shape{1, num_units, static_cast<std::int64_t>(width)};
    const float* data = outputs[index].floats(shape, kPunctuationOutputs[index]);
    return std::vector<float>(data, data + units.pauses.size() * width);
  };
  return {numbers(0, kNumMarks), numbers(1, kNumCases)};
}

}  // namespace asr_stream
