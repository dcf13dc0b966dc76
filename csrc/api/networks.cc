#include "api/networks.h"

#include <algorithm>
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

NeuralLmModel::NeuralLmModel(const OnnxRuntime& runtime, std::string_view onnx, const std::string& name,
                             int num_threads)
    : NetworkFile(runtime, onnx, name, num_threads, kNeuralLmInputs, kNeuralLmOutputs) {
  undamaged<std::runtime_error>(name, " is damaged: its graph cannot be run", [this] {
    PieceTree tree;
    for (std::int64_t node = 0; tree.pieces.size() < PieceTree::kMinNodes; ++node) {
      tree.pieces.push_back(WordPieces::kSentenceEdge);
      tree.parents.push_back(std::max<std::int64_t>(node - 1, 0));
      tree.depths.push_back(node);
      tree.ends.push_back(PieceTree::kMinNodes);
    }
    score(tree);
  });
}

std::vector<float> NeuralLmModel::score(const PieceTree& tree) const {
  const Shape shape{static_cast<std::int64_t>(tree.pieces.size())};
  const Tensor pieces = Tensor::view(runtime_, tree.pieces, shape);
  const Tensor parents = Tensor::view(runtime_, tree.parents, shape);
  const Tensor depths = Tensor::view(runtime_, tree.depths, shape);
  const Tensor ends = Tensor::view(runtime_, tree.ends, shape);
  const std::vector<Tensor> outputs = session_.run({&pieces, &parents, &depths, &ends});
  const float* scores = outputs[0].floats(shape, kNeuralLmOutputs[0]);
  std::vector<float> log_probs(scores, scores + tree.pieces.size());
  for (float& log_prob : log_probs) log_prob = std::min(log_prob, 0.0f);  // NaN stays and is rejected later
  return log_probs;
}

}  // namespace asr_stream
