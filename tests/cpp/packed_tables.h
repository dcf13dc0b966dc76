// Writes the tables that search/packed_numbers.h reads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/packed_numbers.h"

namespace asr_stream {

// The units of PackedNumbers.
inline std::vector<std::uint64_t> packed_units(const std::vector<std::uint32_t>& numbers, std::uint32_t highest) {
  std::vector<std::uint64_t> units(PackedNumbers::num_units(highest, numbers.size()));
  std::size_t bit = 0;
  for (const std::uint32_t number : numbers) {
    for (std::uint32_t k = 0; k < 32 && highest >> k != 0; ++k, ++bit) {
      units[bit / 64] |= static_cast<std::uint64_t>(number >> k & 1) << bit % 64;
    }
  }
  return units;
}

// The tables of PackedRanges.
struct RangeTables {
  explicit RangeTables(const std::vector<std::uint32_t>& all) {
    std::uint32_t position = 0;
    for (std::size_t i = 0; i < all.size(); i += PackedRanges::kBlock) {
      const std::size_t last = std::min(all.size(), i + PackedRanges::kBlock);
      const bool is_long = std::any_of(all.begin() + static_cast<std::ptrdiff_t>(i),
                                       all.begin() + static_cast<std::ptrdiff_t>(last), [](auto n) { return n > 255; });
      blocks.push_back(is_long ? 1u << 31 | static_cast<std::uint32_t>(ends.size()) : position);
      if (is_long) ends.push_back(position);
      for (std::size_t k = i; k < last; ++k) {
        lengths.push_back(static_cast<std::uint8_t>(std::min(all[k], 255u)));
        position += all[k];
        if (is_long) ends.push_back(position);
      }
      if (is_long) ends.resize(ends.size() + i + PackedRanges::kBlock - last, position);
    }
  }

  PackedRanges ranges() const { return {blocks.data(), ends.data(), lengths.data()}; }

  std::vector<std::uint32_t> blocks, ends;
  std::vector<std::uint8_t> lengths;
};

}  // namespace asr_stream
