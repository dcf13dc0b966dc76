// Rules for German numbers. Numbers up to twelve stay words unless a unit, money, a time or a date follows.
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "text/de/german.h"
#include "text/letter_case.h"
#include "text/longest_match.h"

namespace asr_stream::de {

namespace {

using Shown = std::vector<ShownToken>;

constexpr int kLargestWord = 12;

const std::unordered_set<std::string> kMonths = {"januar", "jänner", "februar",   "märz",    "april",    "mai", "juni",
                                                 "juli",   "august", "september", "oktober", "november", "dezember"};
const std::unordered_set<std::string> kMagnitudes = {"million", "millionen", "milliarde", "milliarden", "billion",
                                                     "billionen"};
// The text after a number; for money, after an amount.
const std::unordered_map<std::string, std::string> kUnits = {
    {"prozent", "%"},   {"kilometer", "km"}, {"meter", "m"},       {"zentimeter", "cm"}, {"millimeter", "mm"},
    {"kilogramm", "kg"}, {"kilo", "kg"},     {"gramm", "g"},       {"milligramm", "mg"}, {"liter", "l"},
    {"milliliter", "ml"}, {"watt", "W"},     {"kilowatt", "kW"},   {"volt", "V"},        {"hektar", "ha"},
    {"grad", "Grad"},   {"cent", "Cent"},    {"stundenkilometer", "km/h"}, {"kilowattstunden", "kWh"},
    {"gigabyte", "GB"}, {"megabyte", "MB"},  {"quadratmeter", "m²"}, {"kubikmeter", "m³"},
    {"pfund", "Pfund"}};
const std::unordered_map<std::string, std::string> kCurrencies = {
    {"euro", "€"}, {"dollar", "$"}, {"franken", "CHF"}, {"yen", "¥"}};
const std::unordered_set<std::string> kOther = {"minus", "komma", "uhr", "celsius", "eine", "einen", "einem", "einer"};

// "12.000". Numbers with four digits have no point, like years.
std::string with_points(std::string digits) {
  if (digits.size() > 4) {
    for (std::size_t at = digits.size() - 3; at > 0; at = at > 3 ? at - 3 : 0) digits.insert(at, ".");
  }
  return digits;
}

struct Amount {
  std::string text;
  int value = 0;             // of an integer
  bool is_negative = false;
  bool is_decimal = false;
  std::size_t end = 0;
};

class Rules {
 public:
  explicit Rules(const LookedAt& looked_at) : at_(looked_at) {}

  Shown match(std::size_t i) const {
    Shown best;
    for (Shown found : {date(i), time(i), money(i), measure(i), digits(i), number(i), ordinal(i)}) {
      if (!found.empty() && (best.empty() || found.back().last > best.back().last)) best = std::move(found);
    }
    return best;
  }

 private:
  const std::string& word(std::size_t i) const { return at_.word(i); }

  // "minus drei komma eins vier", "zwanzig"
  bool read(std::size_t i, Amount& amount) const {
    const bool is_negative = word(i) == "minus" && (i == 0 || !cardinal(word(i - 1)));  // not "zwei minus drei"
    const auto value = cardinal(word(i + is_negative));
    if (!value) return false;
    const std::string sign = is_negative ? "-" : "";
    amount = {sign + with_points(std::to_string(*value)), *value, is_negative, false, i + is_negative + 1};
    if (word(amount.end) != "komma") return true;
    std::string fraction;
    std::size_t end = amount.end + 1;
    while (const auto digit = cardinal(word(end))) {
      if (*digit > 9 && !fraction.empty()) break;
      fraction += std::to_string(*digit);
      ++end;
      if (*digit > 9) break;  // "komma fünfundzwanzig"
    }
    if (!fraction.empty()) amount = {amount.text + "," + fraction, 0, is_negative, true, end};
    return true;
  }

  void add_magnitude(Shown& shown, std::size_t& end) const {
    if (!kMagnitudes.count(word(end))) return;
    shown.push_back({capitalized(word(end)), end, end});
    ++end;
  }

  // Whether the number before this word belongs to it, so that it is neither minutes nor cents.
  bool is_counted(std::size_t i) const {
    return word(i) == "uhr" || kUnits.count(word(i)) || kCurrencies.count(word(i)) || kMagnitudes.count(word(i));
  }

  // "neun uhr dreißig"
  Shown time(std::size_t i) const {
    const auto hour = cardinal(word(i));
    if (!hour || *hour > 24 || word(i + 1) != "uhr") return {};
    const bool has_zero = word(i + 2) == "null" && cardinal(word(i + 3)).value_or(10) < 10;  // "vierzehn uhr null fünf"
    const std::size_t last = i + 2 + has_zero;
    const auto minute = cardinal(word(last));
    if (!minute || *minute > 59 || is_counted(last + 1)) return {{std::to_string(*hour), i, i}, {"Uhr", i + 1, i + 1}};
    const std::string text = std::to_string(*hour) + (*minute < 10 ? ":0" : ":") + std::to_string(*minute);
    return {{text, i, last - 1}, {"Uhr", last, last}};
  }

  // "einundzwanzigsten juli neunzehnhundertneunundsechzig", "mai zweitausendfünf"
  Shown date(std::size_t i) const {
    const auto day = de::ordinal(word(i));
    const std::size_t month = i + day.has_value();
    if ((day && *day > 31) || !kMonths.count(word(month))) return {};
    Shown shown;
    if (day) shown.push_back({std::to_string(*day) + ".", i, i});
    shown.push_back({capitalized(word(month)), month, month});
    const auto year = cardinal(word(month + 1));
    const bool is_year = year && *year >= 1000 && *year < 2100;
    if (is_year) shown.push_back({std::to_string(*year), month + 1, month + 1});
    return day || is_year ? shown : Shown{};
  }

  // "drei euro fünfzig", "zwei komma fünf millionen euro"
  Shown money(std::size_t i) const {
    Amount amount;
    if (!read(i, amount)) return {};
    Shown shown = {{amount.text, i, amount.end - 1}};
    std::size_t end = amount.end;
    add_magnitude(shown, end);
    const auto currency = kCurrencies.find(word(end));
    if (currency == kCurrencies.end()) return {};
    const auto cents = cardinal(word(end + 1));
    if (shown.size() == 1 && !amount.is_decimal && cents && *cents > 9 && *cents < 100 &&
        !is_counted(end + 2)) {
      return {{amount.text + "," + std::to_string(*cents), i, end}, {currency->second, end + 1, end + 1}};
    }
    shown.push_back({currency->second, end, end});
    return shown;
  }

  Shown measure(std::size_t i) const {
    Amount amount;
    if (!read(i, amount)) return {};
    const auto unit = kUnits.find(word(amount.end));
    if (unit == kUnits.end()) return {};
    const bool is_celsius = word(amount.end) == "grad" && word(amount.end + 1) == "celsius";
    return {{amount.text, i, amount.end - 1},
            {is_celsius ? "°C" : unit->second, amount.end, amount.end + is_celsius}};
  }

  // "null eins sieben sechs": digits that are not a quantity, because they include a zero.
  Shown digits(std::size_t i) const {
    std::string all;
    std::size_t end = i;
    for (auto digit = cardinal(word(end)); digit && *digit < 10; digit = cardinal(word(++end))) {
      all += std::to_string(*digit);
    }
    return all.size() >= 3 && all.find('0') != all.npos ? Shown{{all, i, end - 1}} : Shown{};
  }

  Shown number(std::size_t i) const {
    Amount amount;
    if (!read(i, amount)) return {};
    Shown shown = {{amount.text, i, amount.end - 1}};
    std::size_t end = amount.end;
    add_magnitude(shown, end);
    const bool is_word = amount.value == 1 || (shown.size() == 1 && amount.value <= kLargestWord);
    const bool is_digits = amount.is_negative || amount.is_decimal || !is_word;
    return is_digits && word(i) != "hundert" && word(i) != "tausend" ? shown : Shown{};
  }

  Shown ordinal(std::size_t i) const {
    const auto value = de::ordinal(word(i));
    return value && *value > kLargestWord ? Shown{{with_points(std::to_string(*value)) + ".", i, i}} : Shown{};
  }

  const LookedAt& at_;
};

bool has_role(const std::string& word) {
  return kMonths.count(word) || kOther.count(word) || kMagnitudes.count(word) || cardinal(word) ||
         ordinal(word);
}

}  // namespace

std::vector<ShownToken> format_numbers(const std::vector<std::string>& words, std::size_t first,
                                       std::size_t num_stable, std::size_t* num_settled) {
  const LookedAt looked_at(words);
  const Rules rules(looked_at);
  return longest_matches(words, first, num_stable, num_settled, looked_at, has_role,
                         [&rules](std::size_t i) { return rules.match(i); });
}

}  // namespace asr_stream::de
