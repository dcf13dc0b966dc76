#include "checksum.h"

#include <cstddef>
#include <cstring>

namespace asr_stream {

std::uint64_t checksum(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::size_t at, std::size_t size) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, size);
    hash = (hash ^ word) * 0x100000001b3;
  };
  const std::size_t tail = bytes.size() % 8, whole = bytes.size() - tail;
  for (std::size_t at = 0; at < whole; at += 8) add(at, 8);
  if (tail) add(whole, tail);
  return hash;
}

}  // namespace asr_stream
