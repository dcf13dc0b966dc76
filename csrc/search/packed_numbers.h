// Numbers stored with as few bits as needed. A large table is several times smaller than with 32 bits per number, and
// causes fewer cache misses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace asr_stream {

// A list of numbers with the same number of bits each.
class PackedNumbers {
 public:
  PackedNumbers() = default;
  // `highest`: the largest number that will be stored. `capacity`: maximum count.
  PackedNumbers(std::uint32_t highest, std::size_t capacity) {
    while (num_bits_ < 32 && highest >> num_bits_ != 0) ++num_bits_;
    mask_ = (std::uint64_t{1} << num_bits_) - 1;
    units_.assign((static_cast<std::uint64_t>(capacity) * num_bits_) / 64 + 2, 0);
  }

  // number: at most `highest`.
  void push_back(std::uint32_t number) {
    const std::uint64_t bit = static_cast<std::uint64_t>(size_++) * num_bits_;
    std::uint64_t* const unit = units_.data() + bit / 64;
    unit[0] |= static_cast<std::uint64_t>(number) << bit % 64;
    unit[1] |= static_cast<std::uint64_t>(number) >> 1 >> (63 - bit % 64);
  }

  std::uint32_t operator[](std::size_t i) const noexcept {
    const std::uint64_t bit = static_cast<std::uint64_t>(i) * num_bits_;
    const std::uint64_t* const unit = units_.data() + bit / 64;
    return static_cast<std::uint32_t>((unit[0] >> bit % 64 | unit[1] << 1 << (63 - bit % 64)) & mask_);
  }

  std::size_t size() const noexcept { return size_; }

  // Returns the first position in [begin, end) whose number is at least `number`, or `end`. Numbers must be sorted.
  std::size_t lower_bound(std::size_t begin, std::size_t end, std::uint32_t number) const noexcept {
    for (std::size_t length = end - begin; length > 0;) {  // branch-free binary search
      const std::size_t half = length / 2;
      const bool is_behind = (*this)[begin + half] < number;
      begin += is_behind ? half + 1 : 0;
      length = is_behind ? length - half - 1 : half;
    }
    return begin;
  }

 private:
  std::uint64_t mask_ = 0;
  std::uint32_t num_bits_ = 0;
  std::size_t size_ = 0;
  std::vector<std::uint64_t> units_;  // one extra, so that reading the last number stays in bounds
};

// Begin and end of consecutive ranges, most of which are short. A block stores its begin and one byte per range for the
// length. A block with a longer range stores all positions instead.
class PackedRanges {
 public:
  // `capacity`: maximum number of ranges.
  void reserve(std::size_t capacity) {
    lengths_.reserve(capacity);
    blocks_.reserve(capacity / kBlock + 1);
  }

  // Appends a range after the previous one. The sum of all lengths is at most 2^31 - 1.
  void push_back(std::uint32_t length) {
    const std::size_t i = lengths_.size() % kBlock;
    if (i == 0) blocks_.push_back(end_);
    std::uint32_t& block = blocks_.back();
    if (length > 0xff && !(block & kLong)) become_long(block, i);
    lengths_.push_back(static_cast<std::uint8_t>(std::min<std::uint32_t>(length, 0xff)));
    end_ += length;
    if (block & kLong) ends_[(block ^ kLong) + i + 1] = end_;
  }

  std::pair<std::uint32_t, std::uint32_t> operator[](std::size_t i) const noexcept {
    const std::uint32_t block = blocks_[i / kBlock];
    if (block & kLong) {
      const std::uint32_t* const begin = ends_.data() + (block ^ kLong) + i % kBlock;
      return {begin[0], begin[1]};
    }
    std::uint32_t begin = block;
    for (std::size_t k = i - i % kBlock; k < i; ++k) begin += lengths_[k];
    return {begin, begin + lengths_[i]};
  }

  std::size_t size() const noexcept { return lengths_.size(); }
  std::uint32_t end() const noexcept { return end_; }  // end of the last range

 private:
  static constexpr std::size_t kBlock = 16;
  static constexpr std::uint32_t kLong = 1u << 31;

  // `count`: number of ranges in the block so far.
  void become_long(std::uint32_t& block, std::size_t count) {
    const std::size_t at = ends_.size();
    ends_.resize(at + kBlock + 1, block);
    for (std::size_t k = 0; k < count; ++k) ends_[at + k + 1] = ends_[at + k] + lengths_[lengths_.size() - count + k];
    block = kLong | static_cast<std::uint32_t>(at);
  }

  std::uint32_t end_ = 0;
  std::vector<std::uint8_t> lengths_;
  std::vector<std::uint32_t> blocks_;  // begin of each block, or kLong and an index into `ends_`
  std::vector<std::uint32_t> ends_;    // for each long block: its begin, and the end of each of its ranges
};

}  // namespace asr_stream
