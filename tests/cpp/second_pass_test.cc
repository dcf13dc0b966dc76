#include "second_pass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "contract.h"

namespace asr_stream {
namespace {

// A second of a tone at 4 kHz.
Fbank tone() {
  std::vector<float> samples(16000);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i] = std::sin(1.5707963f * static_cast<float>(i % 4) + 0.5f);
  }
  Fbank fbank;
  fbank.accept_waveform(samples.data(), samples.size());
  return fbank;
}

TEST(SecondPass, EveryPassCountsTheSame) {
  const Fbank fbank = tone();
  const std::vector<float> first{std::log(0.5f), std::log(0.5f)}, of_pass{std::log(0.9f), std::log(0.1f)};
  SecondPass pass(0, 16);
  pass.append(first.data(), 2, nullptr, 0);
  while (pass.next(fbank, 0, true)) pass.add({of_pass.data(), 1, 2}, {}, 1);
  EXPECT_EQ(pass.num_done(), 1);
  const std::vector<float> mean = pass.mean_of(0).letters;
  EXPECT_NEAR(mean[0] - mean[1], 3 * std::log(9.0) / 4, 1e-5);
}

TEST(SecondPass, TheSecondPassReadsLowerFrequencies) {
  const Fbank fbank = tone();
  const std::vector<float> rows(4 * 2, std::log(0.5f));
  SecondPass pass(0, 16);
  for (int frame = 0; frame < 4; ++frame) pass.append(rows.data(), 2, nullptr, 0);
  std::vector<std::ptrdiff_t> peaks;  // the loudest bin of each pass
  while (const std::optional<EncoderStep> step = pass.next(fbank, 0, true)) {
    const auto row = step->features.begin() + 8 * kNumBins;
    peaks.push_back(std::max_element(row, row + kNumBins) - row);
    pass.add({rows.data(), 4, 2}, {}, 4);
  }
  ASSERT_EQ(peaks.size(), 3u);
  EXPECT_LT(peaks[1], peaks[0]);
  EXPECT_EQ(peaks[2], peaks[0]);
}

}  // namespace
}  // namespace asr_stream
