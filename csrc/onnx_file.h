// The bytes of an .onnx file, looked over before ONNX Runtime opens them.
//
// A file of ours is whole, is of one opset, and holds its weights itself. Weights may also lie in another file that
// the model names, and releases of ONNX Runtime before 1.24 follow such a name wherever it leads. So the protocol
// buffers of onnx.proto are walked here, far enough to find every tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace asr_stream {

inline constexpr std::uint64_t kOnnxOpset = 18;  // of the standard operators; part of format version 1

// The metadata_props of a model. std::invalid_argument unless it is whole, of opset kOnnxOpset, and without data
// outside it; the message says where or why.
std::map<std::string, std::string> read_onnx_properties(std::string_view onnx);

}  // namespace asr_stream
