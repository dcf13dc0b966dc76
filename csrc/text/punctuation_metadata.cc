// Metadata of a punctuation network.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

#include "contract.h"
#include "metadata.h"
#include "text/punctuation.h"

namespace asr_stream {
namespace {

constexpr std::size_t kMaxWords = 99999;

// JSON of one object whose values are texts. std::invalid_argument for any other.
class TextObject {
 public:
  explicit TextObject(std::string_view json) : rest_(json) {}

  MixedCase read() {
    MixedCase result;
    expect('{');
    if (!accept('}')) {
      do {
        std::string key = text();
        expect(':');
        result[key] = text();
      } while (accept(','));
      expect('}');
    }
    skip_space();
    if (!rest_.empty()) fail();
    return result;
  }

 private:
  [[noreturn]] static void fail() { throw std::invalid_argument("no object of texts"); }

  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }

  bool accept(char wanted) {
    skip_space();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) fail();
  }

  char next() {
    if (rest_.empty()) fail();
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  std::string text() {
    expect('"');
    std::string result;
    for (char c = next(); c != '"'; c = next()) {
      if (static_cast<unsigned char>(c) < 0x20) fail();
      if (c == '\\') {
        c = next();
        if (c != '"' && c != '\\' && c != '/') fail();  // others are in no word; letters are written as they are
      }
      result += c;
    }
    return result;
  }

  std::string_view rest_;
};

std::size_t number_of_words(const std::map<std::string, std::string>& properties, const char* key) {
  const auto found = properties.find(key);
  const std::string text = found == properties.end() ? "" : found->second;
  const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
  if (text.empty() || text.size() > 5 || !is_number) {
    throw std::invalid_argument(std::string("metadata key ") + key + " is '" + text.substr(0, 60) +
                                "', not a number of words in [0, " + std::to_string(kMaxWords) + "]: " + kExportAgain);
  }
  return std::stoul(text);
}

}  // namespace

PunctuationMetadata read_punctuation_metadata(const std::map<std::string, std::string>& properties) {
  const auto value = [&properties](const char* key) {
    const auto found = properties.find(key);
    return found == properties.end() ? std::string("missing") : found->second.substr(0, 60);
  };
  if (value("model_type") != kPunctuationType) {
    throw std::invalid_argument("it is no model for punctuation: its metadata key model_type is " +
                                value("model_type") + ", not " + kPunctuationType);
  }
  if (value("format_version") != std::to_string(kPunctuationVersion)) {
    throw std::invalid_argument("metadata key format_version is " + value("format_version") + "; this release reads " +
                                std::to_string(kPunctuationVersion) +
                                ": update asr-stream, or write the file again with a matching `asr export`");
  }
  PunctuationMetadata metadata;
  metadata.look_ahead = number_of_words(properties, "look_ahead");
  metadata.left_context = number_of_words(properties, "left_context");
  try {
    const auto mixed = properties.find("mixed_case");
    metadata.mixed = TextObject(mixed == properties.end() ? "" : mixed->second).read();
  } catch (const std::invalid_argument&) {
    throw std::invalid_argument(std::string("metadata key mixed_case is damaged or missing: ") + kExportAgain);
  }
  return metadata;
}

}  // namespace asr_stream
