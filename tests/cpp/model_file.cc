#include "model_file.h"

#include <cstdint>

#include "checksum.h"
#include "contract.h"
#include "onnx_file.h"

namespace {

constexpr char kTokens[] = "<blk>\n<unk>\n<sos/eos>\n\xe2\x96\x81\nA\nB";

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>(128 | (value & 127));
  return bytes + static_cast<char>(value);
}

// A field of onnx.proto that has bytes.
std::string field(unsigned number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string property(const std::string& key, const std::string& value) {
  return field(14, field(1, key) + field(2, value));
}

}  // namespace

Properties model_properties() {
  return {{"model_type", "asr_stream"},
          {"format_version", std::to_string(asr_stream::kFormatVersion)},
          {"sample_rate", "16000"},
          {"num_mel_bins", "80"},
          {"frame_length_ms", "25"},
          {"frame_shift_ms", "10"},
          {"low_freq", "20"},
          {"high_freq", "7600"},
          {"preemphasis", "0.97"},
          {"window", "povey"},
          {"snip_edges", "false"},
          {"remove_dc_offset", "true"},
          {"dither", "0"},
          {"subsampling", "4"},
          {"feature_overlap", "3"},
          {"num_layers", "2"},
          {"dim", "3"},
          {"default_chunk_size", "16"},
          {"default_left_context", "64"},
          {"rescore_ctc_weight", "0.5"},
          {"tokens", kTokens},
          {"phones", ""},
          {"language", "en"},
          {"states", "loudest float32 N"},
          {"fake", "encoder"}};
}

Properties decoder_properties() {
  return {{"model_type", asr_stream::kDecoderType},
          {"format_version", std::to_string(asr_stream::kDecoderVersion)},
          {"dim", "3"},
          {"tokens", kTokens},
          {"states", "key_cache float32 N,2,C,3\nvalue_cache float32 N,2,C,3\nmemory_keys float32 1,2,C,3\n"
                     "memory_values float32 1,2,C,3"},
          {"fake", "decoder"}};
}

std::string onnx_file(const Properties& properties) {
  std::string rest = field(8, std::string("\x10") + varint(asr_stream::kOnnxOpset));
  for (const auto& [key, value] : properties) rest += property(key, value);
  std::string digits;
  const std::uint64_t sum = asr_stream::checksum(rest);
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[sum >> shift & 15];
  return property("checksum", digits) + rest;
}
