// Runs the WAV reader of the examples on any bytes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "wav.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::FILE* file = fmemopen(const_cast<std::uint8_t*>(data), size, "rb");
  if (!file) std::abort();
  std::uint32_t num_samples = 0;
  const char* problem = wav_open(file, &num_samples);
  if (!problem) {  // then there was a header before the samples
    const long position = std::ftell(file);
    if (position < 44 || static_cast<std::size_t>(position) > size) std::abort();
  }
  std::fclose(file);
  return 0;
}
