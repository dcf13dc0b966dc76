// Python wrappers for objects that are not thread-safe.
#pragma once

#include <pybind11/pybind11.h>

#include <utility>

#include "exclusive_use.h"

namespace asr_stream {

namespace py = pybind11;

// Wraps an object for one thread at a time: a second thread gets a RuntimeError while the first uses it. The GIL is
// released, so that other objects can proceed.
template <typename T>
class Exclusive {
 public:
  template <typename... Args>
  explicit Exclusive(const char* name, Args&&... args) : name_(name), object_(std::forward<Args>(args)...) {}

  template <typename Use>
  auto operator()(Use use) {
    const ExclusiveUse::Scope scope(use_, name_);
    const py::gil_scoped_release release;
    return use(object_);
  }

 private:
  const char* name_;
  ExclusiveUse use_;
  T object_;
};

// Converts a method of T to a method of Exclusive<T>.
template <typename T, typename Result, typename... Args>
auto exclusive(Result (T::*method)(Args...)) {
  return [method](Exclusive<T>& self, Args... args) {
    return self([&](T& object) { return (object.*method)(std::forward<Args>(args)...); });
  };
}

template <typename T, typename Result, typename... Args>
auto exclusive(Result (T::*method)(Args...) const) {
  return [method](Exclusive<T>& self, Args... args) {
    return self([&](const T& object) { return (object.*method)(std::forward<Args>(args)...); });
  };
}

}  // namespace asr_stream
