#include "json.h"

#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

#include "options.h"
#include "utf8.h"

namespace asr_stream {

namespace {

// The number of bytes of the UTF-8 character at the start of a nonempty text; 0 if it is not valid.
std::size_t character_size(std::string_view text) {
  for (std::size_t size = 1; size <= 4 && size <= text.size(); ++size) {
    if (is_utf8(text.substr(0, size))) return size;
  }
  return text.front() == '\0' ? 1 : 0;  // NUL is not in a C string, but is UTF-8
}

// Writes the members of objects, and the items of arrays.
class Writer {
 public:
  explicit Writer(KeyCase keys) : keys_(keys) {}

  Writer& key(const char* name) {
    separate();
    text_ += json_text(keys_ == KeyCase::kCamel ? camel_case(name) : name) + ':';
    is_first_ = true;
    return *this;
  }
  void text(std::string_view value) { add(json_text(value)); }
  void number(double value) { add(std::isfinite(value) ? number_text(value) : "null"); }
  void open(char bracket) {
    separate();
    text_ += bracket;
    is_first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    is_first_ = false;
  }
  std::string take() { return std::move(text_); }

 private:
  void separate() {
    if (!is_first_) text_ += ',';
    is_first_ = false;
  }
  void add(const std::string& value) {
    separate();
    text_ += value;
  }

  KeyCase keys_;
  bool is_first_ = true;
  std::string text_;
};

void write(Writer& json, const char* key, const std::vector<Word>& words) {
  json.key(key).open('[');
  for (const Word& word : words) {
    json.open('{');
    json.key("word").text(word.text);
    json.key("start").number(word.start_s);
    json.key("end").number(word.end_s);
    json.key("confidence").number(word.confidence);
    json.close('}');
  }
  json.close(']');
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const char byte = text.front();
    if (size == 0) {
      quoted += "\xEF\xBF\xBD";
    } else if (byte == '"' || byte == '\\') {
      (quoted += '\\') += byte;
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(byte));
      quoted += escape;
    } else {
      quoted += text.substr(0, size);
    }
    text.remove_prefix(size ? size : 1);
  }
  return quoted + '"';
}

std::string to_json(const Event& event, KeyCase keys) {
  const bool is_final = event.type == Event::Type::kFinal, is_partial = event.type == Event::Type::kPartial;
  Writer json(keys);
  json.open('{');
  json.key("type").text(name(event.type));
  json.key("text").text(event.text);
  json.key("start").number(event.start_s);
  json.key("end").number(event.end_s);
  write(json, "words", event.words);
  if (is_partial || is_final) {
    json.key("raw").text(event.raw);
    write(json, "raw_words", event.raw_words);
  }
  if (is_partial) json.key("num_stable").number(static_cast<double>(event.num_stable));
  if (event.endpoint) json.key("endpoint").text(event.endpoint);
  if (is_final) {
    json.key("alternatives").open('[');
    for (const Alternative& other : event.alternatives) {
      json.open('{');
      json.key("text").text(other.text);
      json.key("confidence").number(other.confidence);
      write(json, "words", other.words);
      json.close('}');
    }
    json.close(']');
  }
  if (event.num_taken_back) json.key("num_taken_back").number(static_cast<double>(event.num_taken_back));
  json.close('}');
  return json.take();
}

std::string camel_case(std::string_view name) {
  std::string result;
  for (std::size_t i = 0; i < name.size(); ++i) {
    result += name[i] == '_' ? static_cast<char>(std::toupper(name[++i])) : name[i];
  }
  return result;
}

}  // namespace asr_stream
