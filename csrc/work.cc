#include "work.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "contract.h"

namespace asr_stream {

namespace {

constexpr std::int64_t kCommonFrames = 200;  // 2 s; the windows of the second pass are rarely all of one length

std::string shown(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i ? ", " : "") + (shape[i] < 0 ? std::string("any") : std::to_string(shape[i]));
  }
  return text + ")";
}

bool matches(const Shape& found, const Shape& wanted) {
  if (found.size() != wanted.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (wanted[i] < 0 ? found[i] < 1 : found[i] != wanted[i]) return false;
  }
  return true;
}

std::int64_t size_of(const Shape& shape) {
  std::int64_t size = 1;
  for (const std::int64_t length : shape) size *= length;
  return size;
}

}  // namespace

void check_shapes(const Work& work, const Answer& answer) {
  const std::string network = names(work.network).text;
  if (answer.size() != work.outputs.size()) {
    throw std::invalid_argument(network + " gave " + std::to_string(answer.size()) + " outputs; expected " +
                                std::to_string(work.outputs.size()));
  }
  for (std::size_t i = 0; i < answer.size(); ++i) {
    const WantedOutput& wanted = work.outputs[i];
    if (matches(answer[i].shape, wanted.shape)) continue;
    throw std::invalid_argument(network + " gave " + wanted.name + " of shape " + shown(answer[i].shape) +
                                "; expected " + shown(wanted.shape));
  }
}

Rows rows(const Output& output) {
  const std::int64_t size = size_of(output.shape), num_columns = output.shape.back();
  return {output.data, num_columns ? size / num_columns : 0, num_columns};
}

std::vector<float> numbers(const Output& output) { return {output.data, output.data + size_of(output.shape)}; }

Work encoder_work(EncoderStep step, const EncoderSizes& sizes) {
  const std::int64_t num_frames = (step.num_frames - kFeatureOverlap) / kSubsampling;
  Work work{Network::kEncoder,
            {{kEncoderInputs[0], {1, step.num_frames, kNumBins}, std::move(step.features)},
             {kEncoderInputs[1], {1}, std::vector<std::int64_t>{step.num_valid}}},
            {{kEncoderOutputs[0], {1, num_frames, sizes.vocab_size}},
             {kEncoderOutputs[1], {1, num_frames, sizes.dim}}}};
  if (sizes.num_phone_tokens) work.outputs.push_back({kPhoneOutput, {1, num_frames, sizes.num_phone_tokens}});
  const auto keep = step.ends ? StateUse::Keep::kNot : StateUse::Keep::kStays;
  work.state = StateUse{step.slot, step.begins, sizes.left_context, keep, {}};
  work.has_batch = true;
  if (step.slot != kStreamSlot) {
    work.padded_size =
        (step.num_frames - kFeatureOverlap + kCommonFrames - 1) / kCommonFrames * kCommonFrames + kFeatureOverlap;
  }
  return work;
}

}  // namespace asr_stream
