// Compares packed tables with unpacked ones.
#include "packed_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace asr_stream {
namespace {

TEST(PackedNumbers, ReturnsTheStoredNumbers) {
  std::mt19937 random(3);
  for (const std::uint32_t highest : {0u, 1u, 5u, 272010u, 0xffffffu, 0x7fffffffu, 0xffffffffu}) {
    std::vector<std::uint32_t> plain;
    for (int i = 0; i < 1000; ++i) plain.push_back(random() % (std::uint64_t{highest} + 1));
    plain.back() = highest;
    const std::vector<std::uint64_t> units = packed_units(plain, highest);
    const PackedNumbers packed(units.data(), highest);
    for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(packed[i], plain[i]) << highest << " at " << i;
  }
}

TEST(PackedNumbers, LowerBoundIsThatOfTheStandardLibrary) {
  std::mt19937 random(4);
  std::vector<std::uint32_t> plain(300);
  for (std::uint32_t& number : plain) number = random() % 400;
  std::sort(plain.begin(), plain.end());
  const std::vector<std::uint64_t> units = packed_units(plain, 400);
  const PackedNumbers packed(units.data(), 400);
  for (std::uint32_t number = 0; number <= 400; ++number) {
    const std::size_t begin = random() % 150, end = 150 + random() % 151;
    const auto first = plain.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = plain.begin() + static_cast<std::ptrdiff_t>(end);
    EXPECT_EQ(lower_bound(packed, begin, end, number),
              static_cast<std::size_t>(std::lower_bound(first, last, number) - plain.begin()));
  }
}

TEST(PackedRanges, RangesOfAnyLengthAreConsecutive) {
  std::mt19937 random(5);
  for (const std::uint32_t share_of_long : {0u, 5u, 50u}) {  // percent
    std::vector<std::uint32_t> lengths, ends{0};
    for (int i = 0; i < 1003; ++i) {
      lengths.push_back(random() % 100 < share_of_long ? 250 + random() % 10 : random() % 4);
      ends.push_back(ends.back() + lengths.back());
    }
    const RangeTables tables(lengths);
    const PackedRanges ranges = tables.ranges();
    EXPECT_TRUE(ranges.cover(lengths.size(), ends.back(), tables.ends.size()));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      ASSERT_EQ(ranges[i], std::pair(ends[i], ends[i + 1])) << share_of_long << " at " << i;
    }
  }
}

// The ranges are read without further checks.
TEST(PackedRanges, AcceptsOnlyRangesThatCoverTheTable) {
  std::mt19937 random(6);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::uint32_t> lengths(1 + random() % 40);
    std::uint32_t end = 0;
    for (std::uint32_t& length : lengths) end += length = random() % 50 == 0 ? 300 : random() % 3;
    RangeTables tables(lengths);
    for (int k = 0; k < i % 3; ++k) {
      const std::uint32_t value = random() % 4 == 0 ? 1u << 31 | random() % 40 : random() % 700;
      if (random() % 2 == 0) tables.blocks[random() % tables.blocks.size()] = value;
      if (random() % 2 == 0) tables.lengths[random() % tables.lengths.size()] = static_cast<std::uint8_t>(value);
      if (!tables.ends.empty()) tables.ends[random() % tables.ends.size()] = random() % 700;
      if (!tables.ends.empty() && random() % 4 == 0) tables.ends.pop_back();
    }
    const bool is_whole = i % 3 == 0;
    const PackedRanges ranges = tables.ranges();
    const bool covers = ranges.cover(lengths.size(), end, tables.ends.size());
    if (is_whole) {
      ASSERT_TRUE(covers);
    }
    accepted += covers && !is_whole;
    std::uint32_t position = 0;
    for (std::size_t k = 0; covers && k < lengths.size(); ++k) {
      ASSERT_EQ(ranges[k].first, position);
      ASSERT_GE(ranges[k].second, position);
      position = ranges[k].second;
    }
    if (covers) {
      ASSERT_EQ(position, end);
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 5000);
}

}  // namespace
}  // namespace asr_stream
