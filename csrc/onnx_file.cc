#include "onnx_file.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "checksum.h"
#include "utf8.h"

namespace asr_stream {

namespace {

// The messages of onnx.proto on the path to a tensor, and two whose own content is read. No message contains itself,
// because graphs in attributes are rejected. So the recursion below is at most seven levels deep.
enum Message { kModel, kGraph, kTraining, kNode, kAttribute, kSparseTensor, kTensor, kOpset, kProperty, kOther };

constexpr struct {
  Message outer;
  std::uint64_t field;
  Message inner;
} kNested[] = {{kModel, 7, kGraph},           {kModel, 8, kOpset},           {kModel, 14, kProperty},
               {kModel, 20, kTraining},       {kGraph, 1, kNode},            {kGraph, 5, kTensor},
               {kGraph, 15, kSparseTensor},   {kTraining, 1, kGraph},        {kTraining, 2, kGraph},
               {kNode, 5, kAttribute},        {kAttribute, 5, kTensor},      {kAttribute, 10, kTensor},
               {kAttribute, 22, kSparseTensor}, {kAttribute, 23, kSparseTensor}, {kSparseTensor, 1, kTensor},
               {kSparseTensor, 2, kTensor}};

Message inside(Message message, std::uint64_t field) {
  for (const auto& nested : kNested) {
    if (nested.outer == message && nested.field == field) return nested.inner;
  }
  return kOther;
}

// Control flow may run forever, and a runtime expands nested functions exponentially. Both happen while the file is
// loaded, when ONNX Runtime cannot be interrupted.
void refuse_code(Message message, std::uint64_t field) {
  if (message == kAttribute && (field == 6 || field == 11)) {
    throw std::invalid_argument("one of its nodes contains a graph (Loop, If, Scan), which exported files never do");
  }
  if (message == kModel && field == 25) {
    throw std::invalid_argument("it defines functions, which exported files never do");
  }
}

constexpr const char* kChecksum = "checksum";

std::string checksum_digits(std::string_view bytes) {
  const std::uint64_t hash = checksum(bytes);
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[hash >> shift & 15];
  return digits;
}

struct Field {
  std::uint64_t number;
  bool has_bytes;          // otherwise it is a number
  std::uint64_t value;     // of a varint
  std::size_t begin, end;  // of the bytes
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view data) : data_(data) {}

  void read() {
    refuse_weights();
    read(kModel, 0, data_.size());
    if (protected_from_ == 0) {
      throw std::invalid_argument("it does not begin with its checksum, as a file of `asr export` does");
    }
    if (properties[kChecksum] != checksum_digits(data_.substr(protected_from_))) {
      throw std::invalid_argument(kWrongChecksum);
    }
    if (opsets_ == std::vector<std::uint64_t>{kOnnxOpset}) return;
    std::string found;
    for (const std::uint64_t opset : opsets_) found += (found.empty() ? "" : " and ") + std::to_string(opset);
    throw std::invalid_argument("its opset is " + (found.empty() ? "unknown" : found) +
                                ", and that of this format is " + std::to_string(kOnnxOpset));
  }

  std::map<std::string, std::string> properties;

 private:
  // A checkpoint is easily mistaken for a model. No ONNX file begins with these bytes.
  void refuse_weights() const {
    const bool is_zip = data_.substr(0, 4) == "PK\x03\x04";
    if (!is_zip && (data_.size() < 10 || data_.substr(8, 2) != "{\"")) return;
    throw std::invalid_argument(std::string("it is ") + (is_zip ? "a zip file, as a checkpoint of a training is"
                                                                : "a .safetensors file of weights") +
                                ", which `asr export` converts to a model");
  }

  void read(Message message, std::size_t at, std::size_t end) {
    std::string_view first, second;  // the fields 1 and 2 that have bytes
    std::uint64_t version = 0;
    while (at < end) {
      const bool is_first = at == 0;
      const Field field = next(at, end);
      if (field.has_bytes) {
        refuse_code(message, field.number);
        const Message inner = inside(message, field.number);
        if (inner != kOther) read(inner, field.begin, field.end);
        if (is_first && properties.count(kChecksum) != 0) protected_from_ = field.end;
        const std::string_view bytes = data_.substr(field.begin, field.end - field.begin);
        if (field.number == 1) first = bytes;
        if (field.number == 2) second = bytes;
      } else if (field.number == 2) {
        version = field.value;
      }
      const bool elsewhere = field.number == 13 || (field.number == 14 && (field.has_bytes || field.value != 0));
      if (message == kTensor && elsewhere) {
        throw std::invalid_argument("its weights lie in another file (external data), which is never read");
      }
    }
    if (message == kOpset && (first.empty() || first == "ai.onnx")) opsets_.push_back(version);
    if (message == kProperty) properties[std::string(first)] = second;
  }

  Field next(std::size_t& at, std::size_t end) const {
    const std::size_t start = at;
    const std::uint64_t tag = varint(at, end);
    Field field{tag >> 3, false, 0, at, at};
    const std::uint64_t kind = tag & 7;
    // A 32-bit parser would see a different field number. Kinds 3 and 4 are groups, which onnx.proto does not use.
    if (field.number == 0 || tag >> 32 || kind == 3 || kind == 4 || kind > 5) {
      throw std::invalid_argument("no valid field at byte " + std::to_string(start));
    }
    if (kind == 0) {
      field.value = varint(at, end);
      return field;
    }
    const std::uint64_t length = kind == 2 ? varint(at, end) : kind == 1 ? 8 : 4;
    if (length > end - at) {
      throw std::invalid_argument("it ends " + std::to_string(length - (end - at)) +
                                  " bytes early, or is damaged before byte " + std::to_string(at));
    }
    field.has_bytes = true;
    field.begin = at;
    field.end = at += static_cast<std::size_t>(length);
    return field;
  }

  // Seven bits per byte, lowest first.
  std::uint64_t varint(std::size_t& at, std::size_t end) const {
    std::uint64_t value = 0;
    for (int shift = 0; at < end && shift < 70; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(data_[at++]);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw std::invalid_argument("truncated varint at byte " + std::to_string(at));
  }

  std::string_view data_;
  std::vector<std::uint64_t> opsets_;
  std::size_t protected_from_ = 0;  // first byte covered by the checksum; 0 if there is none
};

}  // namespace

std::map<std::string, std::string> read_onnx_properties(std::string_view onnx) {
  ProtoReader reader(onnx);
  reader.read();
  for (const auto& [key, value] : reader.properties) {
    if (!is_utf8(key) || !is_utf8(value)) throw std::invalid_argument("a property is not UTF-8");
  }
  return std::move(reader.properties);
}

}  // namespace asr_stream
