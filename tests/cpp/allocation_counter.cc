// In a separate file: if a replaced operator is inlined, compilers warn of a mismatch of new and free.
#include "allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace {

std::atomic<long> count{0};
thread_local bool next_fails = false;

void* counted(void* (*allocate)(std::size_t size, std::size_t alignment), std::size_t size, std::size_t alignment) {
  count.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::exchange(next_fails, false) ? nullptr : allocate(size == 0 ? 1 : size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

long num_allocations() { return count.load(); }

void fail_next_allocation() { next_fails = true; }

void* operator new(std::size_t size) {
  return counted([](std::size_t bytes, std::size_t) { return std::malloc(bytes); }, size, 0);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto allocate = [](std::size_t bytes, std::size_t multiple) {
    return std::aligned_alloc(multiple, (bytes + multiple - 1) / multiple * multiple);
  };
  return counted(allocate, size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
