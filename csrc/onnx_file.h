// Checks the bytes of an .onnx file before ONNX Runtime opens them.
//
// An exported file is whole, is of one opset, holds its weights itself, and is a plain list of nodes. Weights may also
// lie in another file that the model names, and releases of ONNX Runtime before 1.24 follow such a name wherever it
// leads. Control flow (Loop, If, Scan) and functions can keep ONNX Runtime busy for ever while it loads. So the
// protocol buffers of onnx.proto are read here, far enough to find every tensor, and graphs inside nodes are refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace asr_stream {

inline constexpr std::uint64_t kOnnxOpset = 18;  // of the standard operators; part of format version 1

// The metadata_props of a model. std::invalid_argument unless it is whole, of opset kOnnxOpset, without data outside
// it, and without control flow and functions; the message says where or why. Where the file begins with the property
// "checksum", that is the one of all bytes behind this property: a program that writes the file anew puts it elsewhere.
std::map<std::string, std::string> read_onnx_properties(std::string_view onnx);

// 64-bit FNV-1a over words of 8 bytes, little-endian, the last one filled with zeros; 16 hexadecimal digits. Any change
// within one word shows.
std::string onnx_checksum(std::string_view bytes);

}  // namespace asr_stream
