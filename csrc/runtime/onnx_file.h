// What an .onnx file says beside its graph, read without ONNX Runtime.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace asr_stream {

// The metadata_props of an ONNX file. Walks all of the file that can hold weights, and never leaves it: DamagedFileError
// for one that is cut or no protocol buffer, and for weights in another file, which are refused, because a path inside a
// model is not to be trusted.
std::map<std::string, std::string> read_onnx_properties(std::string_view onnx);

}  // namespace asr_stream
