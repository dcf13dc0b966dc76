// Power spectrum of real frames: a Stockham radix-4 FFT of half the length on split real and imaginary arrays,
// with inner loops over contiguous memory, which compilers vectorize.
//
// Double precision, because mel bins of speech may be 100 dB below the rest of the spectrum. There, the rounding errors
// of a float transform change the logarithm by 1e-3 and more.
#pragma once

#include <vector>

namespace asr_stream {

class RealFft {
 public:
  // `size`: 2 * 4^n with n >= 1, such as 512, so that all passes have radix 4.
  explicit RealFft(int size);

  // power[k] = |X[k]|^2 for k in [0, size/2], X the discrete Fourier transform of frame[0..size).
  void power_spectrum(const double* frame, float* power);

 private:
  struct Pass {
    int length;  // of the sub-transforms of this pass
    int stride;  // number of interleaved sub-transforms
    std::vector<double> twiddles;  // [3][re, im][length/4]
  };

  int size_;
  std::vector<Pass> passes_;
  std::vector<double> split_re_, split_im_;  // exp(-2 pi i k / size), k in [0, size/4]
  std::vector<double> work_[4];              // re and im, two of each
  std::vector<float> upper_;                 // power of the upper half of the spectrum, in reverse order
};

}  // namespace asr_stream
