// A language model for tests, written byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "search/ngram_lm.h"

namespace asr_stream {

class Writer {
 public:
  Writer& number(std::uint32_t value) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
    return *this;
  }
  Writer& real(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, 4);
    return number(bits);
  }
  Writer& text(const std::string& value) {
    bytes.insert(bytes.end(), value.begin(), value.end());
    return *this;
  }
  Writer& word(std::uint32_t value) {
    for (int shift = 0; shift < 24; shift += 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
    return *this;
  }
  Writer& code(std::uint8_t value) {
    bytes.push_back(value);
    return *this;
  }
  std::vector<std::uint8_t> bytes;
};

enum Words : std::uint32_t { kEnd, kBegin, kUnknown, kA, kAb, kB, kNumWords };

// Bigrams: <s> A (-0.5), A AB (-1), A B (-1.5); trigram: <s> A AB (-0.25). In versions 2 and 4 A is pronounced P.
inline std::vector<std::uint8_t> small_file(std::uint32_t version, float log_prob_of_a = -1.0f) {
  const std::string text = "</s>\n<s>\n<unk>\nA\nAB\nB";
  Writer w;
  w.text("ASRNGRAM").number(version).number(3).number(kNumWords).number(3).number(1);
  w.number(static_cast<std::uint32_t>(text.size())).text(text);
  for (const float log_prob : {-3.0f, -99.0f, -4.0f, log_prob_of_a, -2.0f, -2.5f}) w.real(log_prob);
  w.real(-0.5f).real(0.1f);  // back-off: -0.5 + 0.1 * code
  for (const std::uint8_t code : {5, 1, 5, 2, 5, 5}) w.code(code);
  if (version < 3) {
    for (const std::uint32_t first : {0u, 0u, 1u, 1u, 3u, 3u, 3u}) w.number(first);
    w.word(kA).word(kAb).word(kB);
  } else {
    for (const std::uint8_t count : {0, 1, 0, 2, 0, 0}) w.code(count);
    w.code(0).code(0x81).code(0).code(2);  // the second is 1 in two bytes
  }
  w.real(-1.5f).real(0.5f).code(2).code(1).code(0);
  w.real(-0.75f).real(0.25f).code(1).code(3).code(3);
  if (version < 3) {
    for (const std::uint32_t first : {0u, 1u, 1u, 1u}) w.number(first);
    w.word(kAb);
  } else {
    for (const std::uint8_t count : {1, 0, 0}) w.code(count);
    w.code(1);
  }
  w.real(-0.25f).real(0.0f).code(0);
  if (version % 2 == 0) {
    w.number(1).text("P").code(0).code(0).code(0).code(1).code(1).code(0).code(0).code(0).number(0);
  }
  return w.bytes;
}

inline NgramLm small_lm(std::uint32_t version = 3) {
  const auto bytes = small_file(version);
  return NgramLm(bytes.data(), bytes.size());
}

}  // namespace asr_stream
