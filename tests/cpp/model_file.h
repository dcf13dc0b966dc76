// Files for tests of the C API: their metadata, and no nodes. fake_onnxruntime.cc runs them.
#pragma once

#include <map>
#include <string>

using Properties = std::map<std::string, std::string>;

// Of a model with the letters A and B, and of its decoder.
Properties model_properties();
Properties decoder_properties();
// The bytes of an ONNX file with these properties, which begins with its checksum.
std::string onnx_file(const Properties& properties);
