// The checksum in every model file: detects accidental changes, and does not authenticate a file.
#pragma once

#include <cstdint>
#include <string_view>

namespace asr_stream {

// 64-bit FNV-1a over little-endian words of 8 bytes, the last one padded with zeros. Detects any change within one
// word.
std::uint64_t checksum(std::string_view bytes);

inline constexpr char kWrongChecksum[] = "its checksum does not match: some byte has changed since it was written";

}  // namespace asr_stream
