// Tables of a language model's file, read in place. Numbers have as few bits as needed, so that a large table causes
// few cache misses. asr/lm/packed.py writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace asr_stream {

// Returns the first position in [begin, end) whose number is at least `number`, or `end`. Numbers must be sorted.
template <typename Numbers>
std::size_t lower_bound(const Numbers& numbers, std::size_t begin, std::size_t end, std::uint32_t number) noexcept {
  for (std::size_t length = end - begin; length > 0;) {  // branch-free binary search
    const std::size_t half = length / 2;
    const bool is_behind = numbers[begin + half] < number;
    begin += is_behind ? half + 1 : 0;
    length = is_behind ? length - half - 1 : half;
  }
  return begin;
}

// A list of numbers with the same number of bits each: number i is in the bits from i times that on, the lowest first,
// of a sequence of units of 64 bits. The units must outlive this.
class PackedNumbers {
 public:
  PackedNumbers() = default;
  // units: `num_units` of them. highest: decides the number of bits, which is the fewest that it needs.
  PackedNumbers(const std::uint64_t* units, std::uint32_t highest)
      : mask_((std::uint64_t{1} << num_bits(highest)) - 1), num_bits_(num_bits(highest)), units_(units) {}

  // Of `count` numbers. One more than they need, so that reading the last number stays in bounds.
  static std::size_t num_units(std::uint32_t highest, std::size_t count) noexcept {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(count) * num_bits(highest) / 64 + 2);
  }

  std::uint32_t operator[](std::size_t i) const noexcept {
    const std::uint64_t bit = static_cast<std::uint64_t>(i) * num_bits_;
    const std::uint64_t* const unit = units_ + bit / 64;
    return static_cast<std::uint32_t>((unit[0] >> bit % 64 | unit[1] << 1 << (63 - bit % 64)) & mask_);
  }

 private:
  static std::uint32_t num_bits(std::uint32_t highest) noexcept {
    std::uint32_t count = 0;
    while (count < 32 && highest >> count != 0) ++count;
    return count;
  }

  std::uint64_t mask_ = 0;
  std::uint32_t num_bits_ = 0;
  const std::uint64_t* units_ = nullptr;
};

// Begin and end of consecutive ranges, most of which are short. A block of 16 ranges has its begin, and one byte per
// range for the length. A block with a longer range has all positions instead. The tables must outlive this.
class PackedRanges {
 public:
  static constexpr std::size_t kBlock = 16;

  PackedRanges() = default;
  // blocks: for each block its begin, or 2^31 + the index in `ends` of its begin, which the ends of its 16 ranges
  // follow. lengths: of each range, at most 255. Ends after the last range are not read.
  PackedRanges(const std::uint32_t* blocks, const std::uint32_t* ends, const std::uint8_t* lengths)
      : blocks_(blocks), ends_(ends), lengths_(lengths) {}

  static std::size_t num_blocks(std::size_t count) noexcept { return count / kBlock + (count % kBlock != 0); }

  // Whether `count` ranges cover the positions from 0 to `end` one after another. num_ends: size of `ends`.
  bool cover(std::size_t count, std::uint32_t end, std::size_t num_ends) const noexcept {
    std::uint64_t position = 0;
    for (std::size_t first = 0; first < count; first += kBlock) {
      const std::size_t in_block = count - first < kBlock ? count - first : kBlock;
      const std::uint32_t block = blocks_[first / kBlock];
      if (block & kLong) {
        const std::size_t at = block ^ kLong;
        if (at + kBlock >= num_ends || ends_[at] != position) return false;
        for (std::size_t i = 1; i <= in_block; ++i) {
          if (ends_[at + i] < position) return false;
          position = ends_[at + i];
        }
      } else {
        if (block != position) return false;
        for (std::size_t i = 0; i < in_block; ++i) position += lengths_[first + i];
      }
    }
    return position == end;
  }

  std::pair<std::uint32_t, std::uint32_t> operator[](std::size_t i) const noexcept {
    const std::uint32_t block = blocks_[i / kBlock];
    if (block & kLong) {
      const std::uint32_t* const begin = ends_ + (block ^ kLong) + i % kBlock;
      return {begin[0], begin[1]};
    }
    std::uint32_t begin = block;
    for (std::size_t k = i - i % kBlock; k < i; ++k) begin += lengths_[k];
    return {begin, begin + lengths_[i]};
  }

 private:
  static constexpr std::uint32_t kLong = 1u << 31;

  const std::uint32_t* blocks_ = nullptr;
  const std::uint32_t* ends_ = nullptr;
  const std::uint8_t* lengths_ = nullptr;
};

}  // namespace asr_stream
