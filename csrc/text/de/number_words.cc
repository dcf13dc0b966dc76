// German number words: units precede tens, and a number below a million is a single word.
#include <string_view>
#include <unordered_map>

#include "text/de/german.h"

namespace asr_stream::de {

namespace {

using Values = std::unordered_map<std::string_view, int>;

const Values kSmall = {{"null", 0},      {"eins", 1},      {"ein", 1},       {"zwei", 2},      {"zwo", 2},
                       {"drei", 3},      {"vier", 4},      {"fünf", 5},      {"sechs", 6},     {"sieben", 7},
                       {"acht", 8},      {"neun", 9},      {"zehn", 10},     {"elf", 11},      {"zwölf", 12},
                       {"dreizehn", 13}, {"vierzehn", 14}, {"fünfzehn", 15}, {"sechzehn", 16}, {"siebzehn", 17},
                       {"achtzehn", 18}, {"neunzehn", 19}};
const Values kTens = {{"zwanzig", 20}, {"dreißig", 30}, {"dreissig", 30}, {"vierzig", 40}, {"fünfzig", 50},
                      {"sechzig", 60}, {"siebzig", 70}, {"achtzig", 80},  {"neunzig", 90}};
const Values kOrdinals = {{"erst", 1}, {"zweit", 2}, {"dritt", 3}, {"siebt", 7}, {"acht", 8}};

std::optional<int> value_in(const Values& values, std::string_view word) {
  const auto found = values.find(word);
  return found == values.end() ? std::nullopt : std::optional<int>(found->second);
}

std::optional<int> below_hundred(std::string_view word) {
  if (const auto small = value_in(kSmall, word)) return small;
  if (const auto tens = value_in(kTens, word)) return tens;
  for (std::size_t at = word.find("und"); at != word.npos; at = word.find("und", at + 1)) {
    const auto unit = value_in(kSmall, word.substr(0, at)), tens = value_in(kTens, word.substr(at + 3));
    if (unit && tens && *unit > 0 && *unit < 10) return *unit + *tens;
  }
  return std::nullopt;
}

// The numbers before and after a power of ten; if missing, they are one and zero.
template <typename Part>
std::optional<int> around(std::string_view word, std::string_view power, int factor, int most, Part part) {
  const std::size_t at = word.find(power);
  if (at == word.npos) return part(word);
  std::string_view rest = word.substr(at + power.size());
  if (rest.substr(0, 3) == "und") rest.remove_prefix(3);
  const auto count = at == 0 ? std::optional<int>(1) : part(word.substr(0, at));
  const auto more = rest.empty() ? std::optional<int>(0) : part(rest);
  if (!count || !more || *count == 0 || *count > most) return std::nullopt;
  return *count * factor + *more;
}

std::optional<int> below_thousand(std::string_view word) {
  return around(word, "hundert", 100, 19, [](std::string_view part) { return below_hundred(part); });
}

std::optional<int> below_million(std::string_view word) {
  return around(word, "tausend", 1000, 999, [](std::string_view part) { return below_thousand(part); });
}

}  // namespace

std::optional<int> cardinal(const std::string& word) {
  if (word.size() < 3) return std::nullopt;
  return below_million(word);
}

std::optional<int> ordinal(const std::string& word) {
  std::string_view stem = word;
  for (const std::string_view ending : {"er", "en", "em", "es", "e"}) {
    if (stem.size() <= ending.size() || stem.substr(stem.size() - ending.size()) != ending) continue;
    stem.remove_suffix(ending.size());
    for (const auto& [last, value] : kOrdinals) {  // "hunderterste"
      if (stem.size() < last.size() || stem.substr(stem.size() - last.size()) != last) continue;
      const std::string_view before = stem.substr(0, stem.size() - last.size());
      if (before.empty()) return value;
      const auto larger = below_million(before);
      if (larger && *larger % 100 == 0) return *larger + value;
    }
    for (const std::string_view suffix : {"st", "t"}) {
      if (stem.size() <= suffix.size() || stem.substr(stem.size() - suffix.size()) != suffix) continue;
      const auto value = below_million(stem.substr(0, stem.size() - suffix.size()));
      if (value && *value > 0 && (suffix == "st") == (*value % 100 > 19 || *value % 100 == 0)) return value;
    }
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace asr_stream::de
