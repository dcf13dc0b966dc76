// A language model for tests, written byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "checksum.h"
#include "packed_tables.h"
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
  Writer& code(std::uint8_t value) {
    bytes.push_back(value);
    return *this;
  }
  template <typename Number>
  Writer& table(const std::vector<Number>& numbers) {
    bytes.resize((bytes.size() + 7) / 8 * 8);
    const auto* first = reinterpret_cast<const std::uint8_t*>(numbers.data());
    bytes.insert(bytes.end(), first, first + numbers.size() * sizeof(Number));
    return *this;
  }
  // The last words of n-grams, and how many extend each (n-1)-gram.
  Writer& children(const std::vector<std::uint32_t>& lengths, const std::vector<std::uint32_t>& words,
                   std::uint32_t num_words) {
    const RangeTables tables(lengths);
    number(static_cast<std::uint32_t>(tables.ends.size())).table(tables.blocks).table(tables.ends);
    return table(tables.lengths).table(packed_units(words, num_words - 1));
  }
  std::vector<std::uint8_t> bytes;
};

enum Words : std::uint32_t { kEnd, kBegin, kUnknown, kA, kAb, kB, kNumWords };

inline constexpr std::size_t kHeadSize = 8 + 4 + 8;  // magic, version, checksum

// Corrects the checksum of a file.
inline void seal(std::vector<std::uint8_t>& file) {
  const auto* content = reinterpret_cast<const char*>(file.data()) + kHeadSize;
  const std::uint64_t sum = checksum({content, file.size() - kHeadSize});
  for (int byte = 0; byte < 8; ++byte) {
    file[kHeadSize - 8 + static_cast<std::size_t>(byte)] = static_cast<std::uint8_t>(sum >> 8 * byte);
  }
}

inline const std::string kPronounced("\1\0\0\0P\0\0\0\1\1\x80\0\0\0\0\0\0", 17);  // A as P, and no G2P model

// Bigrams: <s> A (-0.5), A AB (-1), A B (-1.5); trigram: <s> A AB (-0.25). A is the likeliest word, or rarer than all
// others but <s>.
inline std::vector<std::uint8_t> small_file(const std::string& pronunciations = std::string(4, '\0'),
                                            bool a_is_rare = false) {
  const std::string text = "</s>\n<s>\n<unk>\nA\nAB\nB\n";
  Writer w;
  w.text("ASRNGRAM").number(2).number(0).number(0).number(3).number(kNumWords).number(3).number(1);
  w.number(static_cast<std::uint32_t>(text.size())).text(text);
  w.table(std::vector<float>{-3.0f, -99.0f, -4.0f, a_is_rare ? -14.0f : -1.0f, -2.0f, -2.5f});
  w.real(-0.5f).real(0.1f);  // back-off: -0.5 + 0.1 * code
  for (const std::uint8_t code : {5, 1, 5, 2, 5, 5}) w.code(code);
  w.children({0, 1, 0, 2, 0, 0}, {kA, kAb, kB}, kNumWords);
  w.real(-1.5f).real(0.5f).code(2).code(1).code(0);
  w.real(-0.75f).real(0.25f).code(1).code(3).code(3);
  w.children({1, 0, 0}, {kAb}, kNumWords);
  w.real(-0.25f).real(0.0f).code(0);
  w.text(pronunciations);
  seal(w.bytes);
  return w.bytes;
}

inline NgramLm small_lm(const std::string& pronunciations = std::string(4, '\0')) {
  const auto bytes = small_file(pronunciations);
  return NgramLm(bytes.data(), bytes.size());
}

}  // namespace asr_stream
