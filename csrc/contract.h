// What every runtime agrees on: the sample rate of recognition, and the limits and defaults of what is asked for.
#pragma once

#include <cstdint>

namespace asr_stream {

inline constexpr std::int32_t kSampleRate = 16000;  // Hz, behind the resampler
inline constexpr std::int32_t kMinSampleRate = 1000;
inline constexpr std::int32_t kMaxSampleRate = 768000;

}  // namespace asr_stream
