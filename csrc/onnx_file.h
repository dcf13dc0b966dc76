// Checks the bytes of an .onnx file before ONNX Runtime opens them.
//
// An exported file is complete, has the expected opset, contains its weights, and is a plain list of nodes. ONNX in
// general allows more: a model may name another file with its weights, and ONNX Runtime before 1.24 opens any such
// path. Control flow (Loop, If, Scan) and functions can make ONNX Runtime hang while it loads a file. So this code
// parses onnx.proto far enough to find every tensor, and rejects graphs inside nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace asr_stream {

inline constexpr std::uint64_t kOnnxOpset = 18;  // for the standard operators; part of format version 1

// The metadata_props of a model. Throws std::invalid_argument, with the position or the reason, unless the file begins
// with the property "checksum" (16 hexadecimal digits, of all bytes after the property), is complete and has opset
// kOnnxOpset, properties in UTF-8, no external data, no control flow and no functions.
std::map<std::string, std::string> read_onnx_properties(std::string_view onnx);

}  // namespace asr_stream
