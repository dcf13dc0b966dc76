// Detects two threads that use one object at the same time. It never waits: the second caller gets an error.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

namespace asr_stream {

class ExclusiveUse {
 public:
  // Wait-free. Returns true if the caller now owns the object and must call `leave`.
  bool try_enter() noexcept { return !busy_.test_and_set(std::memory_order_acquire); }
  void leave() noexcept { busy_.clear(std::memory_order_release); }

  // Owns the object for one scope; throws std::runtime_error if another thread uses it.
  class Scope {
   public:
    Scope(ExclusiveUse& use, const char* what) : use_(use) {
      if (!use_.try_enter()) {
        throw std::runtime_error(std::string(what) +
                                 " is being used by another thread: give each thread its own object, "
                                 "or hold a lock around every call");
      }
    }
    ~Scope() { use_.leave(); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ExclusiveUse& use_;
  };

 private:
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace asr_stream
