// Reads files without ONNX Runtime: the first byte selects the format in which the rest is read. Checksums are
// corrected first, because they would detect any change.
#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "api/failure.h"
#include "checksum.h"
#include "metadata.h"
#include "onnx_file.h"
#include "search/g2p.h"
#include "search/neural_lm.h"
#include "search/ngram_lm.h"
#include "text/punctuation.h"

namespace {

using namespace asr_stream;

// Lines of "key=value"; in values, ';' stands for the end of a line.
std::map<std::string, std::string> properties(std::string_view text) {
  std::map<std::string, std::string> found;
  while (!text.empty()) {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::string value = line.substr(std::min(line.size(), line.find('=') + 1));
    for (char& c : value) c = c == ';' ? '\n' : c;
    found[line.substr(0, line.find('='))] = value;
  }
  return found;
}

// A property that holds the checksum of the data, and the data.
std::string sealed_onnx(std::string_view data) {
  std::ostringstream digits;
  digits << std::hex << std::setfill('0') << std::setw(16) << checksum(data);
  return "\x72\x1c\x0a\x08" "checksum" "\x12\x10" + digits.str() + std::string(data);
}

void read_onnx(std::string_view data) {
  const auto found = read_onnx_properties(sealed_onnx(data));
  const auto type = found.find("model_type");
  if (type != found.end() && type->second == kPunctuationType) {
    PunctuationMetadata{found};
  } else if (type != found.end() && type->second == kNeuralLmType) {
    NeuralLmMetadata{found};
  } else if (type != found.end() && type->second == kDecoderType) {
    DecoderMetadata{found};
  } else {
    ModelMetadata(found).output_symbols();
  }
}

// A file of a language model without its pronouncing model, which may be a damaged one.
std::string sealed(std::string_view file) {
  constexpr std::size_t kHead = 8 + 4 + 8;  // magic, version, checksum
  std::string result(file);
  if (result.size() < kHead) return result;
  const std::uint64_t sum = checksum(file.substr(kHead));
  for (std::size_t byte = 0; byte < 8; ++byte) result[kHead - 8 + byte] = static_cast<char>(sum >> 8 * byte & 0xff);
  return result;
}

void read_lm(const std::string& file) {
  const NgramLm lm(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  auto state = lm.begin();
  for (std::size_t word = 0; word < lm.num_words(); ++word) {
    lm.advance(state, static_cast<std::int32_t>(word));
    lm.pronunciations(static_cast<std::int32_t>(word));
  }
  for (const bool of_pronunciations : {false, true}) {
    if (lm.phones().empty() && of_pronunciations) break;
    lm.pair_log_probs(of_pronunciations);
    if (lm.num_words() > 1000 || lm.order() < 2) continue;
    const Lexicon& lexicon = lm.lexicon(of_pronunciations);
    LookAhead::Cache cache;
    for (std::size_t word = 0; lexicon.num_children(Lexicon::kRoot) > 0 && word < lm.num_words(); ++word) {
      lm.look_ahead(of_pronunciations)
          ->begin(static_cast<std::int32_t>(word), lexicon.first_child(Lexicon::kRoot), cache);
    }
  }
}

void read_g2p(const std::string& file) {
  const G2p g2p{FileBytes(std::vector<std::uint8_t>(file.begin(), file.end()))};
  for (const char* word : {"A", "PHA'", "\xC3\x89\x41", "\x89\xFF"}) g2p.pronounce(word, 3);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'L':
        read_lm(sealed(rest));
        break;
      case 'G':
        read_g2p(sealed(rest));
        break;
      case 'M':
        ModelMetadata(properties(rest)).output_symbols();
        break;
      case 'P':
        PunctuationMetadata{properties(rest)};
        break;
      case 'N':
        NeuralLmMetadata{properties(rest)};
        break;
      case 'D':
        DecoderMetadata{properties(rest)};
        break;
      default:
        read_onnx(rest);
    }
  } catch (const DamagedFileError&) {
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
