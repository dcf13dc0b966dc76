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

// The metadata_props of a model. Throws std::invalid_argument, with the position or the reason, unless the file is
// complete and has opset kOnnxOpset, properties in UTF-8, no external data, no control flow and no functions. If the
// file begins with the property "checksum", its value must be the checksum of all bytes after the property. Other
// programs write the property elsewhere; then it is not checked.
std::map<std::string, std::string> read_onnx_properties(std::string_view onnx);

// 64-bit FNV-1a over little-endian words of 8 bytes, the last one padded with zeros; 16 hexadecimal digits. Detects any
// change within one word.
std::string onnx_checksum(std::string_view bytes);

}  // namespace asr_stream
