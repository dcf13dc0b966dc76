// Compares packed tables with unpacked ones.
#include "search/packed_numbers.h"

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
    PackedNumbers packed(highest, plain.size());
    for (const std::uint32_t number : plain) packed.push_back(number);
    ASSERT_EQ(packed.size(), plain.size());
    for (std::size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(packed[i], plain[i]) << highest << " at " << i;
  }
}

TEST(PackedNumbers, LowerBoundIsThatOfTheStandardLibrary) {
  std::mt19937 random(4);
  std::vector<std::uint32_t> plain(300);
  for (std::uint32_t& number : plain) number = random() % 400;
  std::sort(plain.begin(), plain.end());
  PackedNumbers packed(400, plain.size());
  for (const std::uint32_t number : plain) packed.push_back(number);
  for (std::uint32_t number = 0; number <= 400; ++number) {
    const std::size_t begin = random() % 150, end = 150 + random() % 151;
    const auto first = plain.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = plain.begin() + static_cast<std::ptrdiff_t>(end);
    EXPECT_EQ(packed.lower_bound(begin, end, number),
              static_cast<std::size_t>(std::lower_bound(first, last, number) - plain.begin()));
  }
}

TEST(PackedRanges, RangesOfAnyLengthAreConsecutive) {
  std::mt19937 random(5);
  for (const std::uint32_t share_of_long : {0u, 5u, 50u}) {  // percent
    PackedRanges ranges;
    std::vector<std::uint32_t> ends{0};
    for (int i = 0; i < 1003; ++i) {
      const std::uint32_t length = random() % 100 < share_of_long ? 250 + random() % 10 : random() % 4;
      ranges.push_back(length);
      ends.push_back(ends.back() + length);
    }
    ASSERT_EQ(ranges.size(), ends.size() - 1);
    EXPECT_EQ(ranges.end(), ends.back());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_EQ(ranges[i], std::pair(ends[i], ends[i + 1])) << share_of_long << " at " << i;
    }
  }
}

}  // namespace
}  // namespace asr_stream
