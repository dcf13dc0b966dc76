// A network for tests: "A" for loud audio, "B" for less loud audio, and nothing in silence.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <variant>
#include <vector>

#include "segment.h"
#include "work.h"

namespace asr_stream {

inline constexpr std::int64_t kNetworkDim = 3;
inline constexpr std::int64_t kNetworkTokens = 6;

inline std::shared_ptr<SegmentOptions> network_options(std::int32_t search = kRescore) {
  auto result = std::make_shared<SegmentOptions>();
  result->tokens = {"", "<unk>", "", "\xe2\x96\x81", "A", "B"};
  result->options.search = search;
  result->has_decoder = true;
  result->beam.beam_size = 32;  // enough for three letters
  return result;
}

// One pending run as its owner sees it.
inline const std::vector<float>& floats(const Work& work, std::size_t input) {
  return std::get<std::vector<float>>(work.inputs.at(input).data);
}
inline const std::vector<std::int64_t>& integers(const Work& work, std::size_t input) {
  return std::get<std::vector<std::int64_t>>(work.inputs.at(input).data);
}
inline bool is_encoder(const Work& work) { return work.network == Network::kEncoder; }
inline bool is_decoder_step(const Work& work) { return work.network == Network::kDecoder && work.state; }
inline bool is_scoring(const Work& work) { return work.network == Network::kDecoder && !work.state; }
inline bool is_first_pass(const Work& work) { return is_encoder(work) && work.state->slot == kStreamSlot; }
inline std::int64_t num_frames(const Work& work) { return work.outputs.at(0).shape.at(1); }  // of the encoder's output

// Answers with the first output, and with 0.5 for all others; -1 in a shape is kNetworkDim.
template <typename Owner>
void answer(Owner& owner, const Work& work, const std::vector<float>& first) {
  Answer answer;
  std::vector<std::vector<float>> others(work.outputs.size());
  for (std::size_t i = 0; i < work.outputs.size(); ++i) {
    Shape shape = work.outputs[i].shape;
    std::int64_t size = 1;
    for (std::int64_t& length : shape) size *= length = length < 0 ? kNetworkDim : length;
    if (i) others[i].assign(static_cast<std::size_t>(size), 0.5f);
    answer.push_back({i ? others[i].data() : first.data(), shape});
  }
  owner.answer(answer);
}

// Answers `work` of a Segment or a Stream.
template <typename Owner>
void run_network(Owner& owner, const Work& work) {
  if (is_encoder(work)) {
    std::vector<float> log_probs(static_cast<std::size_t>(num_frames(work) * kNetworkTokens), -5.0f);
    for (std::int64_t frame = 0; frame < num_frames(work); ++frame) {
      const float* bins = floats(work, 0).data() + frame * kSubsampling * kNumBins;
      const float loudness = std::accumulate(bins, bins + kNumBins, 0.0f) / kNumBins;
      const std::int64_t token = loudness > -4 ? 4 : loudness > -14 ? 5 : 0;
      log_probs[static_cast<std::size_t>(kNetworkTokens * frame + token)] = -0.05f;
    }
    answer(owner, work, log_probs);
  } else if (is_decoder_step(work)) {
    answer(owner, work, std::vector<float>(integers(work, 3).size() * kNetworkTokens, -1.8f));
  } else {
    answer(owner, work, std::vector<float>(integers(work, 1).size(), -1.0f));
  }
}

// Repeats 1 s of loud noise, 0.5 s of less loud noise and 2 s of silence, at a sample rate.
inline std::vector<float> utterances(std::size_t count, std::size_t sample_rate = 16000) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> noise(-1.0f, 1.0f);
  std::vector<float> samples(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t phase = i % (sample_rate * 7 / 2);
    samples[i] = noise(generator) * (phase < sample_rate ? 0.5f : phase < sample_rate * 3 / 2 ? 0.003f : 0.0f);
  }
  return samples;
}

}  // namespace asr_stream
