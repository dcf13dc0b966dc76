// NumPy arguments without casts or copies; error messages say how to convert.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "file_bytes.h"
#include "work.h"

namespace asr_stream {

namespace py = pybind11;

inline std::string type_name(const py::handle& object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

// TypeError unless `object` is a NumPy array; ValueError unless it has `ndim` dimensions (any if negative), is
// C-contiguous and aligned.
inline py::array require_array(const py::object& object, py::ssize_t ndim, const char* what) {
  if (!py::isinstance<py::array>(object)) {
    throw py::type_error(std::string(what) + " must be a numpy.ndarray, got " + type_name(object));
  }
  auto array = py::reinterpret_borrow<py::array>(object);
  if (ndim >= 0 && array.ndim() != ndim) {
    throw py::value_error(std::string(what) + " must have " + std::to_string(ndim) + " dimension" +
                          (ndim == 1 ? "" : "s") + ", got " + std::to_string(array.ndim()) +
                          (ndim == 1 ? "; pass one channel at a time" : ""));
  }
  const int wanted = py::array::c_style | py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  if ((array.flags() & wanted) != wanted) {
    throw py::value_error(std::string(what) +
                          " must be C-contiguous and aligned; use numpy.ascontiguousarray or a copy");
  }
  return array;
}

[[noreturn]] inline void throw_dtype_error(const py::array& array, const char* what, const char* wanted) {
  throw py::type_error(std::string(what) + " must be " + wanted + ", got " +
                       std::string(py::str(array.dtype())) + "; nothing is cast silently, convert it first");
}

// As `require_array`, one-dimensional; TypeError unless it is uint8.
inline py::array require_bytes(const py::object& object, const char* what) {
  const py::array array = require_array(object, 1, what);
  if (!py::isinstance<py::array_t<std::uint8_t>>(array)) throw_dtype_error(array, what, "uint8");
  return array;
}

// The bytes of a file. Those of an array that cannot be written, as of a mapped file, are kept; others are copied.
inline FileBytes file_bytes(const py::object& object, const char* what) {
  const py::array array = require_bytes(object, what);
  const auto* data = static_cast<const std::uint8_t*>(array.data());
  const auto size = static_cast<std::size_t>(array.size());
  if (array.writeable()) return FileBytes(std::vector<std::uint8_t>(data, data + size));
  const auto release = [](py::object* kept) {
    const py::gil_scoped_acquire acquire;
    delete kept;
  };
  return {data, size, std::shared_ptr<py::object>(new py::object(array), release)};
}

// As `require_array`; TypeError unless it is float32.
inline py::array require_floats(const py::object& object, const char* what, py::ssize_t ndim = -1) {
  const py::array array = require_array(object, ndim, what);
  if (!py::isinstance<py::array_t<float>>(array)) throw_dtype_error(array, what, "float32");
  return array;
}

// A matrix, for as long as the caller keeps `object` alive.
inline Rows rows_of(const py::object& object, const char* what) {
  const py::array array = require_floats(object, what, 2);
  return Rows{static_cast<const float*>(array.data()), array.shape(0), array.shape(1)};
}

// Calls `use(const float*, size_t)` or `use(const int16_t*, size_t)`. `object` keeps the memory alive.
template <typename Use>
auto with_samples(const py::object& object, Use use) {
  const py::array array = require_array(object, 1, "samples");
  const auto count = static_cast<std::size_t>(array.size());
  if (py::isinstance<py::array_t<float>>(array)) return use(static_cast<const float*>(array.data()), count);
  if (py::isinstance<py::array_t<std::int16_t>>(array)) {
    return use(static_cast<const std::int16_t*>(array.data()), count);
  }
  throw_dtype_error(array, "samples", "float32 in [-1, 1] or int16");
}

}  // namespace asr_stream
