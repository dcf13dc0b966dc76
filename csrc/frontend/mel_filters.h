// Triangular filters on the mel scale (1127 ln(1 + f / 700)), as in Kaldi and torchaudio.compliance.kaldi.
#pragma once

#include <vector>

namespace asr_stream {

double mel_of(double freq);  // freq in Hz

class MelFilters {
 public:
  // Filters over the bins 0 .. fft_size/2 - 1 of a power spectrum; Kaldi omits the Nyquist bin.
  MelFilters(int num_bins, double low_freq, double high_freq, int sample_rate, int fft_size);

  // log_mel[b] = ln(max(float epsilon, sum of weight * power over filter b)). `power` must stay readable for
  // kPadding floats after its last bin.
  void log_mel(const float* power, float* log_mel) const;

  static constexpr int kPadding = 8;

 private:
  struct Filter {
    int first;  // power bin
    int count;  // padded to a multiple of kLanes with zero weights
    int weights;  // offset in weights_
  };

  static constexpr int kLanes = 4;

  std::vector<Filter> filters_;
  std::vector<float> weights_;
};

}  // namespace asr_stream
