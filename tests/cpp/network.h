// A network for tests: "A" for loud audio, "B" for less loud audio, and nothing in silence.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <variant>
#include <vector>

#include "segment.h"

namespace asr_stream {

inline constexpr std::int64_t kNetworkDim = 3;
inline constexpr std::int64_t kNetworkTokens = 6;

inline std::shared_ptr<SegmentOptions> network_options(std::int32_t search = ASR_SEARCH_RESCORE) {
  auto result = std::make_shared<SegmentOptions>();
  result->tokens = {"", "<unk>", "", "\xe2\x96\x81", "A", "B"};
  result->options.search = search;
  return result;
}

// Computes the outputs for `work` of a Segment or a Stream.
template <typename Owner>
void run_network(Owner& owner, const Work& work) {
  if (const auto* step = std::get_if<EncoderStep>(&work)) {
    const std::int64_t num_frames = (step->num_frames - kFeatureOverlap) / kSubsampling;
    std::vector<float> log_probs(static_cast<std::size_t>(num_frames * kNetworkTokens), -5.0f);
    for (std::int64_t frame = 0; frame < num_frames; ++frame) {
      const float* bins = step->features.data() + frame * kSubsampling * kNumBins;
      const float loudness = std::accumulate(bins, bins + kNumBins, 0.0f) / kNumBins;
      const std::int64_t token = loudness > -4 ? 4 : loudness > -14 ? 5 : 0;
      log_probs[static_cast<std::size_t>(kNetworkTokens * frame + token)] = -0.05f;
    }
    const std::vector<float> encoder_out(static_cast<std::size_t>(num_frames * kNetworkDim), 0.5f);
    owner.stepped({log_probs.data(), num_frames, kNetworkTokens}, {encoder_out.data(), num_frames, kNetworkDim});
  } else if (const auto* decoder_step = std::get_if<DecoderStep>(&work)) {
    const auto count = static_cast<std::int64_t>(decoder_step->tokens.size());
    const std::vector<float> log_probs(static_cast<std::size_t>(count * kNetworkTokens), -1.8f);
    owner.decoded({log_probs.data(), count, kNetworkTokens});
  } else {
    owner.scored(std::vector<float>(std::get<DecoderScoring>(work).tokens.size(), -1.0f));
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
