#include "frontend/real_fft.h"

#include <cmath>
#include <utility>

#include "frontend/simd.h"

namespace asr_stream {

namespace {

constexpr double kPi = 3.14159265358979323846;

// One radix-4 butterfly: inputs a..d, outputs before the twiddle.
#define ASR_STREAM_BUTTERFLY4(ar, ai, br, bi, cr, ci, dr, di)                 \
  const double apc_r = (ar) + (cr), apc_i = (ai) + (ci);                       \
  const double amc_r = (ar) - (cr), amc_i = (ai) - (ci);                       \
  const double bpd_r = (br) + (dr), bpd_i = (bi) + (di);                       \
  const double jbmd_r = (di) - (bi), jbmd_i = (br) - (dr); /* i * (b - d) */   \
  const double t1_r = amc_r - jbmd_r, t1_i = amc_i - jbmd_i;                   \
  const double t2_r = apc_r - bpd_r, t2_i = apc_i - bpd_i;                     \
  const double t3_r = amc_r + jbmd_r, t3_i = amc_i + jbmd_i

// The first pass (stride 1): contiguous reads; the four outputs of a butterfly are adjacent.
ASR_STREAM_MULTIVERSION
void radix4_first(int length, const double* ASR_STREAM_RESTRICT tw, const double* ASR_STREAM_RESTRICT xr,
                  const double* ASR_STREAM_RESTRICT xi, double* ASR_STREAM_RESTRICT yr,
                  double* ASR_STREAM_RESTRICT yi) {
  const int m = length / 4;
  for (int p = 0; p < m; ++p) {
    ASR_STREAM_BUTTERFLY4(xr[p], xi[p], xr[p + m], xi[p + m], xr[p + 2 * m], xi[p + 2 * m], xr[p + 3 * m],
                          xi[p + 3 * m]);
    yr[4 * p] = apc_r + bpd_r;
    yi[4 * p] = apc_i + bpd_i;
    yr[4 * p + 1] = tw[p] * t1_r - tw[m + p] * t1_i;
    yi[4 * p + 1] = tw[p] * t1_i + tw[m + p] * t1_r;
    yr[4 * p + 2] = tw[2 * m + p] * t2_r - tw[3 * m + p] * t2_i;
    yi[4 * p + 2] = tw[2 * m + p] * t2_i + tw[3 * m + p] * t2_r;
    yr[4 * p + 3] = tw[4 * m + p] * t3_r - tw[5 * m + p] * t3_i;
    yi[4 * p + 3] = tw[4 * m + p] * t3_i + tw[5 * m + p] * t3_r;
  }
}

// Later passes: `stride` butterflies share a twiddle. kStride makes a small trip count a compile-time constant.
template <int kStride>
ASR_STREAM_ALWAYS_INLINE void radix4_body(int length, int stride, const double* ASR_STREAM_RESTRICT tw,
                                          const double* ASR_STREAM_RESTRICT xr, const double* ASR_STREAM_RESTRICT xi,
                                          double* ASR_STREAM_RESTRICT yr, double* ASR_STREAM_RESTRICT yi) {
  const int s = kStride > 0 ? kStride : stride;
  const int m = length / 4;
  const int quarter = m * s;
  for (int p = 0; p < m; ++p) {
    const double w1r = tw[p], w1i = tw[m + p], w2r = tw[2 * m + p], w2i = tw[3 * m + p], w3r = tw[4 * m + p],
                w3i = tw[5 * m + p];
    const double* ar = xr + s * p;
    const double* ai = xi + s * p;
    double* outr = yr + 4 * s * p;
    double* outi = yi + 4 * s * p;
    for (int q = 0; q < s; ++q) {
      ASR_STREAM_BUTTERFLY4(ar[q], ai[q], ar[q + quarter], ai[q + quarter], ar[q + 2 * quarter],
                            ai[q + 2 * quarter], ar[q + 3 * quarter], ai[q + 3 * quarter]);
      outr[q] = apc_r + bpd_r;
      outi[q] = apc_i + bpd_i;
      outr[q + s] = w1r * t1_r - w1i * t1_i;
      outi[q + s] = w1r * t1_i + w1i * t1_r;
      outr[q + 2 * s] = w2r * t2_r - w2i * t2_i;
      outi[q + 2 * s] = w2r * t2_i + w2i * t2_r;
      outr[q + 3 * s] = w3r * t3_r - w3i * t3_i;
      outi[q + 3 * s] = w3r * t3_i + w3i * t3_r;
    }
  }
}

ASR_STREAM_MULTIVERSION
void radix4(int length, int stride, const double* tw, const double* xr, const double* xi, double* yr, double* yi) {
  if (stride == 4) {
    radix4_body<4>(length, stride, tw, xr, xi, yr, yi);
  } else {
    radix4_body<0>(length, stride, tw, xr, xi, yr, yi);
  }
}

ASR_STREAM_MULTIVERSION
void deinterleave(int half, const double* ASR_STREAM_RESTRICT frame, double* ASR_STREAM_RESTRICT re,
                  double* ASR_STREAM_RESTRICT im) {
  for (int i = 0; i < half; ++i) {
    re[i] = frame[2 * i];
    im[i] = frame[2 * i + 1];
  }
}

// Computes the power spectrum of X from Z, the transform of even samples + i * odd samples. With E and O the transforms
// of the even and odd samples and w = exp(-2 pi i k / size): X[k] = E[k] + w O[k] and |X[half - k]| = |E[k] - w O[k]|.
ASR_STREAM_MULTIVERSION
void split_power(int half, const double* ASR_STREAM_RESTRICT wr, const double* ASR_STREAM_RESTRICT wi,
                 const double* ASR_STREAM_RESTRICT zr, const double* ASR_STREAM_RESTRICT zi,
                 float* ASR_STREAM_RESTRICT low, float* ASR_STREAM_RESTRICT high) {
  const int count = half / 2;
  const double* back_r = zr + half - 1;
  const double* back_i = zi + half - 1;
  for (int i = 0; i < count; ++i) {  // k = i + 1
    const double er = 0.5 * (zr[i + 1] + back_r[-i]);
    const double ei = 0.5 * (zi[i + 1] - back_i[-i]);
    const double odd_r = 0.5 * (zi[i + 1] + back_i[-i]);
    const double odd_i = 0.5 * (back_r[-i] - zr[i + 1]);
    const double wo_r = wr[i + 1] * odd_r - wi[i + 1] * odd_i;
    const double wo_i = wr[i + 1] * odd_i + wi[i + 1] * odd_r;
    const double plus_r = er + wo_r, plus_i = ei + wo_i;
    const double minus_r = er - wo_r, minus_i = ei - wo_i;
    low[i] = static_cast<float>(plus_r * plus_r + plus_i * plus_i);
    high[i] = static_cast<float>(minus_r * minus_r + minus_i * minus_i);
  }
}

}  // namespace

RealFft::RealFft(int size) : size_(size) {
  const int half = size / 2;
  int stride = 1;
  for (int length = half; length > 1;) {
    const int m = length / 4;
    std::vector<double> twiddles(6 * static_cast<std::size_t>(m));
    for (int k = 1; k <= 3; ++k) {
      for (int p = 0; p < m; ++p) {
        const double angle = -2.0 * kPi * k * p / length;
        twiddles[static_cast<std::size_t>((2 * k - 2) * m + p)] = std::cos(angle);
        twiddles[static_cast<std::size_t>((2 * k - 1) * m + p)] = std::sin(angle);
      }
    }
    passes_.push_back({length, stride, std::move(twiddles)});
    length /= 4;
    stride *= 4;
  }
  for (int k = 0; k <= half / 2; ++k) {
    split_re_.push_back(std::cos(-2.0 * kPi * k / size));
    split_im_.push_back(std::sin(-2.0 * kPi * k / size));
  }
  for (std::vector<double>& work : work_) work.resize(static_cast<std::size_t>(half));
  upper_.resize(static_cast<std::size_t>(half / 2));
}

void RealFft::power_spectrum(const double* frame, float* power) {
  const int half = size_ / 2;
  double *xr = work_[0].data(), *xi = work_[1].data(), *yr = work_[2].data(), *yi = work_[3].data();
  deinterleave(half, frame, xr, xi);
  for (const Pass& pass : passes_) {
    if (pass.stride == 1) {
      radix4_first(pass.length, pass.twiddles.data(), xr, xi, yr, yi);
    } else {
      radix4(pass.length, pass.stride, pass.twiddles.data(), xr, xi, yr, yi);
    }
    std::swap(xr, yr);
    std::swap(xi, yi);
  }
  power[0] = static_cast<float>((xr[0] + xi[0]) * (xr[0] + xi[0]));
  power[half] = static_cast<float>((xr[0] - xi[0]) * (xr[0] - xi[0]));
  split_power(half, split_re_.data(), split_im_.data(), xr, xi, power + 1, upper_.data());
  for (int i = 0; i < half / 2; ++i) power[half - 1 - i] = upper_[static_cast<std::size_t>(i)];
}

}  // namespace asr_stream
