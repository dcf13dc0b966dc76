// Reads files without ONNX Runtime: the first byte selects the format in which the rest is read.
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "search/g2p.h"
#include "search/ngram_lm.h"
#include "onnx_file.h"
#include "api/failure.h"
#include "metadata.h"

namespace {

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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'L') {
      asr_stream::NgramLm lm(data + 1, size - 1);
      auto state = lm.begin();
      for (std::size_t word = 0; word < lm.num_words(); ++word) lm.advance(state, static_cast<std::int32_t>(word));
    } else if (data[0] == 'G') {
      const asr_stream::G2p g2p(data + 1, size - 1);
      for (const char* word : {"A", "PHA'", "\xC3\x89\x41", "\x89\xFF"}) g2p.pronounce(word, 3);
    } else if (data[0] == 'M') {
      asr_stream::ModelMetadata(properties(rest)).output_symbols();
    } else {
      asr_stream::ModelMetadata(asr_stream::read_onnx_properties(rest)).output_symbols();
    }
  } catch (const asr_stream::DamagedFileError&) {
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
