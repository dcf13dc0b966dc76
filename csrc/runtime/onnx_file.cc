#include "onnx_file.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "failure.h"

namespace asr_stream {

namespace {

constexpr int kMaxDepth = 64;  // of messages in each other: ONNX's own graphs within graphs need a few

// The messages of onnx.proto that lead to weights.
enum class Message { kModel, kGraph, kNode, kAttribute, kTensor, kSparseTensor, kFunction, kOther };

Message child(Message message, std::uint64_t field) {
  switch (message) {
    case Message::kModel:
      return field == 7 ? Message::kGraph : field == 25 ? Message::kFunction : Message::kOther;
    case Message::kGraph:
      return field == 1    ? Message::kNode
             : field == 5  ? Message::kTensor
             : field == 15 ? Message::kSparseTensor
                           : Message::kOther;
    case Message::kFunction:
      return field == 7 ? Message::kNode : Message::kOther;
    case Message::kNode:
      return field == 5 ? Message::kAttribute : Message::kOther;
    case Message::kAttribute:
      return field == 5 || field == 10    ? Message::kTensor
             : field == 6 || field == 11  ? Message::kGraph
             : field == 22 || field == 23 ? Message::kSparseTensor
                                          : Message::kOther;
    case Message::kSparseTensor:
      return field == 1 || field == 2 ? Message::kTensor : Message::kOther;
    case Message::kTensor:
    case Message::kOther:
      break;
  }
  return Message::kOther;
}

[[noreturn]] void throw_damaged(const char* what) {
  throw DamagedFileError(std::string("it is not an ONNX file, or it is damaged: ") + what);
}

// Reads the fields of one message, front to back.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}

  std::uint64_t number = 0;    // of the field
  std::uint64_t value = 0;     // of a varint field
  std::string_view bytes;      // of one with a length
  bool has_bytes = false;

  bool next() {
    if (left_.empty()) return false;
    const std::uint64_t tag = varint();
    number = tag >> 3;
    if (number == 0) throw_damaged("a field without a number");
    has_bytes = false;
    switch (tag & 7) {
      case 0:
        value = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes = take(varint());
        has_bytes = true;
        break;
      case 5:
        take(4);
        break;
      default:
        throw_damaged("a field of unknown type");
    }
    return true;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(take(1).front());
      result |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return result;
    }
    throw_damaged("a number without end");
  }

  std::string_view take(std::uint64_t count) {
    if (count > left_.size()) throw_damaged("it ends too early");
    const std::string_view taken = left_.substr(0, static_cast<std::size_t>(count));
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view left_;
};

void refuse_external_data(std::string_view bytes, Message message, int depth) {
  if (depth > kMaxDepth) throw_damaged("it is nested too deeply");
  Fields fields(bytes);
  while (fields.next()) {
    if (message == Message::kTensor) {
      if ((fields.number == 13 && fields.has_bytes) || (fields.number == 14 && !fields.has_bytes && fields.value)) {
        throw DamagedFileError("it keeps weights in another file: write it again with `asr export`, in one file");
      }
    } else if (fields.has_bytes) {
      const Message inner = child(message, fields.number);
      if (inner != Message::kOther) refuse_external_data(fields.bytes, inner, depth + 1);
    }
  }
}

std::pair<std::string, std::string> read_entry(std::string_view bytes) {
  std::pair<std::string, std::string> entry;
  for (Fields fields(bytes); fields.next();) {
    if (fields.has_bytes && fields.number == 1) entry.first = fields.bytes;
    if (fields.has_bytes && fields.number == 2) entry.second = fields.bytes;
  }
  return entry;
}

}  // namespace

std::map<std::string, std::string> read_onnx_properties(std::string_view onnx) {
  refuse_external_data(onnx, Message::kModel, 0);
  std::map<std::string, std::string> properties;
  for (Fields fields(onnx); fields.next();) {
    if (fields.number != 14 || !fields.has_bytes) continue;
    auto [key, value] = read_entry(fields.bytes);
    properties[std::move(key)] = std::move(value);
  }
  return properties;
}

}  // namespace asr_stream
