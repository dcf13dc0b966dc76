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

constexpr std::int64_t kMaxWords = 99999;

// A JSON object whose values are all strings. Throws std::invalid_argument for anything else.
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
        if (c != '"' && c != '\\' && c != '/') fail();  // words need no other escapes
      }
      result += c;
    }
    return result;
  }

  std::string_view rest_;
};

}  // namespace

PunctuationMetadata::PunctuationMetadata(const std::map<std::string, std::string>& properties) {
  const MetadataEntries entries(properties, kPunctuationType, "model for punctuation", kPunctuationVersion);
  look_ahead = static_cast<std::size_t>(entries.integer("look_ahead", 0, kMaxWords));
  left_context = static_cast<std::size_t>(entries.integer("left_context", 0, kMaxWords));
  const std::string& mixed_case = entries.text("mixed_case");
  try {
    mixed = TextObject(mixed_case).read();
  } catch (const std::invalid_argument&) {
    entries.throw_damaged("mixed_case", "a JSON object of texts");
  }
}

}  // namespace asr_stream
