// The bytes of a file, mapped or copied, with whatever keeps them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace asr_stream {

// Immutable; nobody changes the bytes as long as a copy of this exists.
struct FileBytes {
  const std::uint8_t* data = nullptr;
  std::size_t size = 0;
  std::shared_ptr<const void> owner;

  FileBytes() = default;
  FileBytes(const std::uint8_t* data, std::size_t size, std::shared_ptr<const void> owner)
      : data(data), size(size), owner(std::move(owner)) {}
  explicit FileBytes(std::vector<std::uint8_t> bytes) {
    auto kept = std::make_shared<const std::vector<std::uint8_t>>(std::move(bytes));
    *this = {kept->data(), kept->size(), kept};
  }

  std::string_view view() const noexcept { return {reinterpret_cast<const char*>(data), size}; }
};

}  // namespace asr_stream
