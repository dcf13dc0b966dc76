#include "search/hotword_list.h"

#include <algorithm>
#include <locale>
#include <sstream>
#include <stdexcept>

#include "search/spelling.h"
#include "text/letter_case.h"

namespace asr_stream {

namespace {

float read_boost(std::string_view line, std::string_view number) {
  std::istringstream stream{std::string(number)};
  stream.imbue(std::locale::classic());
  float boost = 0.0f;
  if (!(stream >> boost) || !(stream >> std::ws).eof() || !is_allowed(option("hotword_boost"), boost)) {
    throw std::invalid_argument("hotword line '" + std::string(line) + "': the boost after the colon or tab, '" +
                                std::string(number) + "', must be a number in " + interval(option("hotword_boost")));
  }
  return boost;
}

std::string one_spaced(std::string_view text) {
  const std::vector<std::string> words = split_words(text);
  return joined(words, 0, words.size());
}

}  // namespace

bool HotwordLine::has_own_spelling() const {
  const auto is_special = [](unsigned char byte) {  // a plain char is signed on some machines only
    return (byte >= '!' && byte < 'a' && byte != '\'') || (byte > 'z' && byte < 0x80);
  };
  return std::any_of(written.begin(), written.end(), is_special) || written != to_lower(written);
}

std::vector<HotwordLine> read_hotwords(std::string_view list, float boost) {
  std::vector<HotwordLine> result;
  for (const std::string_view line : list_lines(list)) {
    const std::size_t separator = line.find_last_of(":\t");
    const bool has_boost = separator != std::string_view::npos;
    HotwordLine hotword{line, "", {}, has_boost ? read_boost(line, line.substr(separator + 1)) : boost};
    const std::string_view words = line.substr(0, separator);
    const std::size_t sign = std::min(words.find('='), words.size());
    hotword.written = one_spaced(words.substr(0, sign));
    for (std::size_t at = sign; at < words.size();) {
      const std::size_t end = std::min(words.find(',', at + 1), words.size());
      hotword.aliases.push_back(one_spaced(words.substr(at + 1, end - at - 1)));
      at = end;
    }
    const auto refuse = [line](const std::string& fault) {
      throw std::invalid_argument("hotword line '" + std::string(line) + "' " + fault);
    };
    const bool has_gap = std::find(hotword.aliases.begin(), hotword.aliases.end(), "") != hotword.aliases.end();
    if (sign < words.size() && (hotword.written.empty() || has_gap)) {
      refuse("has an empty place; write it as Nguyen = win, new yen");
    }
    if (hotword.aliases.size() > kMaxAliases) {
      refuse("has " + std::to_string(hotword.aliases.size()) + " aliases; it may have " + std::to_string(kMaxAliases));
    }
    result.push_back(std::move(hotword));
  }
  return result;
}

}  // namespace asr_stream
