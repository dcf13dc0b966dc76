// Checks the bytes of an .onnx file before ONNX Runtime opens them.
//
// An exported file is complete, has the expected opset, contains its weights, and is a plain list of nodes. In general,
// weights may be in another file named by the model, and ONNX Runtime before 1.24 follows such names anywhere. Control
// flow (Loop, If, Scan) and functions can block ONNX Runtime forever while it loads. So this code parses the protocol
// buffers of onnx.proto far enough to find every tensor, and refuses graphs inside nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace asr_stream {

inline constexpr std::uint64_t kOnnxOpset = 18;  // of the standard operators; part of format version 1

// The metadata_props of a model. Throws std::invalid_argument, with the position or the reason, unless it is complete,
// has opset kOnnxOpset, no external data, no control flow and no functions. If the file begins with the property
// "checksum", this must be the checksum of all bytes after the property; other programs write the property elsewhere.
std::map<std::string, std::string> read_onnx_properties(std::string_view onnx);

// 64-bit FNV-1a over little-endian words of 8 bytes, the last one padded with zeros; 16 hexadecimal digits. Detects any
// change within one word.
std::string onnx_checksum(std::string_view bytes);

}  // namespace asr_stream
