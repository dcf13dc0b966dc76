#include "text/en/spoken_numbers.h"

#include <map>

namespace asr_stream {

namespace {

std::optional<int> value_in(const NumberTables::Values& values, const std::string& word) {
  const auto found = values.find(word);
  return found == values.end() ? std::nullopt : std::optional<int>(found->second);
}

}  // namespace

bool SpokenNumbers::is_letter(std::size_t i) const {
  const std::string& w = word(i);
  return w.size() == 1 && w[0] >= 'a' && w[0] <= 'z';
}

std::optional<int> SpokenNumbers::digit(std::size_t i) const {
  const std::optional<int> value = value_in(tables_.small, word(i));
  return value && *value < 10 ? value : std::nullopt;
}

std::optional<int> SpokenNumbers::any_digit(std::size_t i) const { return is(i, tables_.zeros) ? 0 : digit(i); }

bool SpokenNumbers::is_number(std::size_t i) const {
  return tables_.small.count(word(i)) || tables_.tens.count(word(i)) || tables_.magnitudes.count(word(i)) ||
         is(i, "hundred");
}

std::size_t SpokenNumbers::below_hundred(std::size_t i, int& value, bool ordinal) const {
  if (const auto tens = value_in(tables_.tens, word(i))) {
    value = *tens;
    if (ordinal) {
      const auto last = value_in(tables_.ordinals, word(i + 1));
      if (!last || *last > 9) return 0;
      value += *last;
      return 2;
    }
    const auto last = digit(i + 1);
    value += last.value_or(0);
    return last ? 2 : 1;
  }
  for (const auto* values : {ordinal ? &tables_.ordinals : &tables_.small, &tables_.ordinal_tens}) {
    if (const auto found = value_in(*values, word(i))) {
      value = *found;
      return 1;
    }
    if (!ordinal) break;
  }
  return 0;
}

// ended: whether an ordinal, which nothing can follow, ended the number.
std::size_t SpokenNumbers::below_thousand(std::size_t i, int& value, bool ordinal, bool& ended) const {
  if (ordinal) {
    const std::size_t n = below_hundred(i, value, true);
    if (n) {
      ended = true;
      return n;
    }
  }
  std::size_t n = below_hundred(i, value);
  if (!n && is(i, "a") && (is(i + 1, "hundred") || tables_.magnitudes.count(word(i + 1)))) {
    value = 1;
    n = 1;
  }
  const bool can_be_hundreds = n && (value < 10 || (value > 10 && value % 10));
  if (ordinal && can_be_hundreds && is(i + n, "hundredth")) {
    value *= 100;
    ended = true;
    return n + 1;
  }
  if (!can_be_hundreds || !is(i + n, "hundred")) return n;
  value *= 100;
  ++n;
  for (const bool with_and : {false, true}) {
    if (with_and && !is(i + n, "and")) continue;
    int rest = 0;
    const std::size_t begin = i + n + with_and;
    const std::size_t last = ordinal ? below_hundred(begin, rest, true) : 0;
    if (last) {
      value += rest;
      ended = true;
      return n + with_and + last;
    }
    if (const std::size_t more = below_hundred(begin, rest)) {
      // "two hundred twelve hundred": the second is a separate number.
      if (is(begin + more, "hundred")) break;
      int tens = 0;  // "between two hundred and three fifty": so is the second here
      const bool begins_range = with_and && rest < 10 && i > 0 && is(i - 1, "between");
      if (begins_range && below_hundred(begin + more, tens) && tens > 9) break;
      value += rest;
      return n + with_and + more;
    }
  }
  return n;
}

std::optional<SpokenNumbers::Integer> SpokenNumbers::integer(std::size_t begin, bool ordinal) const {
  std::map<int, int> groups;  // by power of a thousand
  std::size_t i = begin, last_magnitude = 100;
  bool ended = false;
  while (!ended && last_magnitude > 0) {
    std::size_t at = i;
    if (i > begin && is(at, "and")) ++at;
    if (at > begin && is(at, "a")) break;
    int value = 0;
    bool last = false;
    std::size_t n = below_thousand(at, value, ordinal, last);
    if (!n) break;
    auto magnitude = last ? std::nullopt : value_in(tables_.magnitudes, word(at + n));
    bool closes = last;
    if (!last && !magnitude && ordinal) {
      magnitude = value_in(tables_.ordinal_magnitudes, word(at + n));
      closes = magnitude.has_value();
    }
    const std::size_t power = magnitude ? static_cast<std::size_t>(*magnitude) : 0;
    if (power >= last_magnitude || (value >= 1000 && (power || !groups.empty()))) break;
    groups[static_cast<int>(power)] = value;
    last_magnitude = power;
    i = at + n + (magnitude ? 1 : 0);
    ended = closes;
  }
  if (groups.empty() || ended != ordinal) return std::nullopt;
  Integer result{"", is(begin, "a"), 0, i};
  const auto highest = groups.rbegin();
  const bool is_round = groups.size() == 1;
  result.is_article = result.is_article && is_round && i == begin + 2;
  if (is_round && highest->first >= 2 && !ordinal) {
    result.scale = highest->first;
    result.digits = std::to_string(highest->second);
    return result;
  }
  for (int power = highest->first; power >= 0; --power) {
    const std::string group = std::to_string(groups.count(power) ? groups[power] : 0);
    if (!result.digits.empty()) result.digits.append(3 - group.size(), '0');
    result.digits += group;
  }
  return result;
}

std::optional<int> SpokenNumbers::year(std::size_t i, std::size_t& end, int first_century) const {
  int century = 0, rest = 0;
  const std::size_t n = below_hundred(i, century);
  if (n == 1 && century >= first_century && century <= 20) {
    const auto last = is(i + 1, tables_.zeros) && !is(i + 1, "zero") ? digit(i + 2) : std::nullopt;
    if (last) {
      end = i + 3;
      return century * 100 + *last;
    }
    const std::size_t m = below_hundred(i + 1, rest);
    if (m && rest >= 10) {
      end = i + 1 + m;
      return century * 100 + rest;
    }
  }
  if (is(i, "a")) return std::nullopt;
  const auto number = integer(i, false);
  if (!number || number->scale || number->digits.size() != 4) return std::nullopt;
  const int value = std::stoi(number->digits);
  if (value < 1000 || value > 2099) return std::nullopt;
  end = number->end;
  return value;
}

SpokenNumbers::DigitString SpokenNumbers::digit_string(std::size_t i) const {
  DigitString found{"", 0, 0, false, i};
  while (true) {
    if (const auto times = value_in(tables_.repeats, word(i))) {
      const auto repeated = any_digit(i + 1);
      if (!repeated) break;
      found.digits.append(static_cast<std::size_t>(*times), static_cast<char>('0' + *repeated));
      found.has_zero = true;
      found.num_singles += 1;
      i += 2;
    } else if (const auto single = any_digit(i)) {
      if (*single == 0 && found.digits.empty() && !any_digit(i + 1)) break;
      found.has_zero = found.has_zero || *single == 0;
      found.digits += static_cast<char>('0' + *single);
      found.num_singles += 1;
      i += 1;
      if (is(i, "hundred") && *single) {  // "eight hundred five five five"
        found.digits += "00";
        found.num_singles -= 1;
        i += 1;
      }
    } else {
      int value = 0;
      const std::size_t n = below_hundred(i, value);
      if (!n) break;
      found.digits += std::to_string(value);
      i += n;
    }
    found.num_atoms += 1;
    found.end = i;
  }
  return found;
}

std::string SpokenNumbers::fraction(std::size_t i, std::size_t& end) const {
  std::string digits;
  while (const auto next = any_digit(i)) {
    digits += static_cast<char>('0' + *next);
    ++i;
  }
  int value = 0;
  if (digits.empty() || digits.back() == '0') {
    const std::size_t n = below_hundred(i, value);
    if (n && value >= 10) {
      digits += std::to_string(value);
      i += n;
    }
  }
  end = i;
  return digits;
}

std::string with_commas(const std::string& digits) {
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

std::string with_ordinal_suffix(const std::string& digits) {
  const char last = digits.back();
  const bool is_teen = digits.size() > 1 && digits[digits.size() - 2] == '1';
  const char* suffix = is_teen ? "th" : last == '1' ? "st" : last == '2' ? "nd" : last == '3' ? "rd" : "th";
  return with_commas(digits) + suffix;
}

}  // namespace asr_stream
