#include "text/en/number_rules.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <unordered_set>

namespace asr_stream {

namespace {

// Calling codes of two digits (ITU-T E.164); those of one digit are 1 and 7, all others have three.
const std::unordered_set<std::string> kCodesOfTwo = {
    "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47",
    "48", "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65",
    "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95", "98"};

}  // namespace

// Parses an amount that begins at word i. Returns false if there is none.
bool Rules::read(std::size_t i, Amount& amount) const {
  const std::size_t begin = i;
  std::string sign;
  if (spoken.is(i, tables.minus) && !follows_number(i)) {
    sign = "-";
    ++i;
  }
  amount = {"", i, i, false, false, false, false};
  std::string whole = "0";
  if (const auto integer = spoken.integer(i, false)) {
    if (integer->is_article && i > 0 && spoken.is(i - 1, "half")) return false;  // "half a million dollars"
    whole = with_commas(integer->digits);
    amount.end = integer->end;
    amount.is_article = integer->is_article;
    amount.is_small = integer->is_below(10) && sign.empty();
    amount.scale = integer->scale ? integer->end - 1 : integer->end;
    // "one fifty", "nineteen forty five kilograms"
    const int first = integer->is_below(100) ? std::stoi(integer->digits) : 0;
    int rest = 0;
    const std::size_t more = first ? spoken.below_hundred(amount.end, rest) : 0, after = amount.end + more;
    const bool has_more = more && tables.magnitudes.count(spoken.word(after));
    const auto thousands = has_more ? spoken.integer(amount.end, false) : std::nullopt;
    const auto last = first && first < 10 && spoken.is(amount.end, tables.zeros) ? spoken.digit(amount.end + 1)
                                                                                : std::nullopt;
    // "nine ten", "ten fifteen dollars": the second number corrects the first
    const int distance = first < 10 ? 1 : first % 5 == 0 && rest % 5 == 0 ? 10 : first < 20 ? 3 : 0;
    const bool counts_on = rest > first && rest <= first + distance;
    const bool is_apart =
        begin > 0 && (spoken.is(begin - 1, tables.divisions) || (first > 9 && spoken.is(begin - 1, "in")));
    if (last && !follows_number(begin) && !spoken.is_number(amount.end + 2) &&
        !spoken.is(amount.end + 2, tables.zeros)) {  // "one oh two point five"
      whole = std::to_string(100 * first + *last);
      amount.end += 2;
      amount.scale = amount.end;
      amount.is_small = false;
    } else if (thousands && first < 10 && rest > 10 && !counts_on && !is_apart && !follows_number(begin) &&
               !spoken.is(thousands->end, tables.singular)) {  // "one twenty eight thousand"
      whole = with_commas(std::to_string(first) + thousands->digits);
      amount.end = thousands->end;
      amount.scale = thousands->scale ? thousands->end - 1 : thousands->end;
      amount.is_small = false;
    } else if (more && rest >= 10 && !counts_on && !is_apart && !follows_number(begin) && !spoken.is_number(after) &&
        (first < 10 ? !spoken.is(after, tables.singular) : ends_pair(begin, after))) {  // "five fifteen year olds"
      whole = with_commas(std::to_string(100 * first + rest));
      amount.end += more;
      amount.scale = amount.end;
      amount.is_small = false;
      amount.is_pair = true;
    }
  } else if (spoken.is(i, "zero")) {
    amount.end = amount.scale = i + 1;
    amount.is_small = sign.empty();
  } else if (!spoken.is(i, "point")) {
    return false;
  }
  if (amount.scale == amount.end && !amount.is_article && !amount.is_pair && spoken.is(amount.end, "point")) {
    std::size_t end = 0;
    const std::string fraction = spoken.fraction(amount.end + 1, end);
    if (!fraction.empty()) {
      whole += "." + fraction;
      amount.end = amount.scale = end;
      amount.is_small = false;
      amount.is_decimal = true;
      while (spoken.is(end, "point") && spoken.any_digit(end + 1)) {  // "version two point one point four"
        whole += "." + spoken.fraction(end + 1, end);
        amount.end = amount.scale = end;
      }
      if (tables.magnitudes.count(spoken.word(end))) ++amount.end;
    }
  }
  amount.text = sign + whole;
  return amount.end > i;
}

// "page papers" after "three ten"
bool Rules::is_compound(std::size_t i) const {
  return spoken.is(i, tables.singular) && !spoken.word(i + 1).empty() && spoken.word(i + 1).back() == 's';
}

bool Rules::follows_number(std::size_t i) const { return i > 0 && spoken.is_number(i - 1); }

bool Rules::is_counted(std::size_t i) const {
  std::string unit;
  Currency currency;
  return spoken.is(i, tables.counted) || spoken.is(i, tables.cents) || spoken.find(tables.units, i, unit) ||
         spoken.find(tables.currencies, i, currency);
}

// Whether "nineteen ninety five", from word `first` on, is one number before `end`. In "ten fifty dollar bills", it is
// not.
bool Rules::ends_pair(std::size_t first, std::size_t end) const {
  const bool after_article = first > 0 && spoken.is(first - 1, "a");
  Currency currency;
  std::string unit;
  if (spoken.find(tables.currencies, end, currency)) {
    return (after_article || !currency.is_singular) && (currency.is_clear || means_money(first));
  }
  const std::size_t n = spoken.find(tables.units, end, unit);
  bool is_plural = n && unit[0] != ' ';  // "percent"
  for (std::size_t k = end; k < end + n; ++k) is_plural = is_plural || spoken.word(k).back() == 's';
  return n && (after_article || is_plural);
}

// Adds an amount from word `first` on, with `symbol` before it. Its last token extends to `end`.
void Rules::add(Shown& shown, const Amount& amount, std::size_t first, const std::string& symbol,
                std::size_t end) const {
  const bool is_negative = amount.text[0] == '-';
  const std::string text = is_negative ? "-" + symbol + amount.text.substr(1) : symbol + amount.text;
  if (amount.scale == amount.end) {
    shown.push_back({text, first, end - 1});
  } else {
    shown.push_back({text, first, amount.scale - 1});
    shown.push_back({spoken.word(amount.scale), amount.scale, end - 1});
  }
}

Shown Rules::words(std::size_t first, std::size_t end) const {
  Shown shown;
  for (std::size_t k = first; k < end; ++k) add_word(shown, k);
  return shown;
}

bool Rules::add_phrase(Shown& shown, const NumberTables::Texts& table) const {
  std::string text;
  const std::size_t first = shown.back().last + 1, n = spoken.find(table, first, text);
  if (n) shown.push_back({text, first, first + n - 1});
  return n != 0;
}

Shown Rules::measure(std::size_t i) const {
  Amount amount;
  std::string unit;
  if (!read(i, amount)) return {};
  const std::size_t n = spoken.find(tables.units, amount.end, unit);
  if (!n || (amount.is_article && unit[0] == ' ')) return {};
  Shown shown;
  const std::size_t end = amount.end + n;
  // "nineteen fifty percent" may be 19.50 or 1,950.
  if (amount.is_pair && unit == "%" && amount.text.find(',') != std::string::npos) return words(i, end);
  if (unit[0] == ' ' || amount.scale != amount.end) {
    add(shown, amount, i, "", amount.end);
    shown.push_back({unit.substr(unit[0] == ' '), amount.end, end - 1});
  } else {
    shown.push_back({amount.text + unit, i, end - 1});
  }
  return shown;
}

// "fifteen year olds", "a sixty two year old man"
Shown Rules::age(std::size_t i) const {
  Amount amount;
  if (!read(i, amount) || amount.scale != amount.end || amount.is_decimal || amount.is_article) return {};
  const std::string& unit = spoken.word(amount.end);
  if (amount.text == "1" || !tables.ages.count(unit) || !spoken.is(amount.end + 1, tables.old)) return {};
  const std::string number = amount.is_small ? spoken.word(i) : amount.text;
  return {{number + "-" + unit + "-" + spoken.word(amount.end + 1), i, amount.end + 1}};
}

// "two and a half percent", "five and three eighths inches"; "two and a half years" stays.
Shown Rules::mixed(std::size_t i) const {
  Amount amount;
  if (!read(i, amount) || amount.scale != amount.end || amount.is_decimal || amount.is_article || amount.is_pair ||
      !spoken.is(amount.end, "and")) {
    return {};
  }
  const std::size_t at = amount.end + 1;
  const int numerator = spoken.is(at, "a") ? 1 : spoken.digit(at).value_or(0);
  const auto found = tables.denominators.find(spoken.word(at + 1));
  if (!numerator || found == tables.denominators.end() || numerator >= found->second) return {};
  amount.end = amount.scale = at + 2;
  if (spoken.is(amount.end, tables.divided)) {
    return {{amount.text + " " + std::to_string(numerator) + "/" + std::to_string(found->second), i, at + 1}};
  }
  if (found->second != 2 && found->second != 4) return {};
  const int hundredths = 100 * numerator / found->second;
  if (tables.magnitudes.count(spoken.word(amount.end))) ++amount.end;
  Currency currency;
  std::string unit;
  Shown shown;
  const std::size_t n = spoken.find(tables.currencies, amount.end, currency);
  const bool is_money = n && (currency.is_clear || amount.scale != amount.end);
  const bool has_cents = is_money && amount.scale == amount.end;
  amount.text += "." + std::to_string(has_cents || hundredths % 10 ? hundredths : hundredths / 10);
  if (is_money) {
    add(shown, amount, i, currency.symbol, amount.end + n);
  } else if (amount.scale != amount.end) {
    add(shown, amount, i, "", amount.end);
  } else if (const std::size_t m = spoken.find(tables.units, amount.end, unit)) {
    if (unit[0] == ' ') {
      add(shown, amount, i, "", amount.end);
      shown.push_back({unit.substr(1), amount.end, amount.end + m - 1});
    } else {
      shown.push_back({amount.text + unit, i, amount.end + m - 1});
    }
  }
  return shown;
}

Shown Rules::digits(std::size_t i) const {
  const bool with_plus = spoken.is(i, "plus");
  const SpokenNumbers::DigitString found = spoken.digit_string(i + with_plus);
  const std::string& all = found.digits;
  if (all.size() < 2 || spoken.is(found.end, "point") || tables.magnitudes.count(spoken.word(found.end)) ||
      spoken.is(found.end, "hundred") || is_counted(found.end)) {
    return {};
  }
  const bool only_singles = found.num_singles == found.num_atoms;
  bool is_counting = all.size() < 7;  // "one two three", "one one one"
  for (std::size_t k = 2; k < all.size(); ++k) {
    is_counting = is_counting && all[k] - all[k - 1] == all[1] - all[0] && std::abs(all[1] - all[0]) <= 1;
  }
  const bool after_copula = i > 1 && spoken.is(i - 1, tables.copulas);  // "the pin is"
  const bool is_cued = i > 0 && spoken.is(i - 1 - after_copula, tables.number_cues);
  const bool is_pair_of_pairs = is_cued && found.num_atoms == 2 && all.size() == 4;  // "port eighty eighty"
  const bool is_spelled = only_singles ? is_cued || (all.size() >= 3 && (found.has_zero || !is_counting))
                                       : all.size() >= 7 && 2 * found.num_singles >= found.num_atoms;
  if (!is_spelled && !is_pair_of_pairs) return {};
  const std::size_t n = all.size();
  std::string text = all;
  const auto from = [&](std::size_t begin) {
    return all.substr(begin, 3) + "-" + all.substr(begin + 3, 3) + "-" + all.substr(begin + 6);
  };
  if (n == 7) text = all.substr(0, 3) + "-" + all.substr(3);
  if (n == 10) text = from(0);
  if (n == 11 && all[0] == '1') text = "1-" + from(1);
  if (n == 16) text = all.substr(0, 4) + " " + all.substr(4, 4) + " " + all.substr(8, 4) + " " + all.substr(12);
  if (with_plus) {
    const std::size_t code = all[0] == '1' || all[0] == '7' ? 1 : kCodesOfTwo.count(all.substr(0, 2)) ? 2 : 3;
    text = "+" + (n == code + 10 ? all.substr(0, code) + " " + from(code) : all);
  }
  return {{text, i, found.end - 1}};
}

Shown Rules::year(std::size_t i) const {
  std::size_t end = 0;
  int century = 0;
  const std::size_t n = spoken.below_hundred(i, century);
  if (n == 1 && century >= 11 && century <= 20 && !follows_number(i)) {  // "nineteen eighties", "nineteen hundreds"
    const auto decade = tables.decades.find(spoken.word(i + 1));
    if (decade != tables.decades.end()) return {{std::to_string(century * 100 + decade->second) + "s", i, i + 1}};
    if (spoken.is(i + 1, "hundreds")) return {{std::to_string(century * 100) + "s", i, i + 1}};
  }
  const bool is_cued = i > 0 && spoken.is(i - 1, tables.year_prepositions);
  const bool is_named = i > 0 && spoken.is(i - 1, "year");  // "the year ten sixty six"
  const auto found = spoken.year(i, end, is_named ? 10 : 11);
  Shown shown;
  if (found && !follows_number(i)) {
    const bool is_pair = !spoken.is(i + 1, "hundred") && !tables.magnitudes.count(spoken.word(i + 1));
    const bool is_recent = *found > 2000 && *found < 2100;
    std::size_t next = end;  // "until eighteen ninety nine seventeen years"
    if (const auto number = is_cued ? spoken.integer(end, false) : std::nullopt) next = number->end;
    const bool counts_next = next > end && is_counted(next);
    const bool is_in = is_cued && (spoken.is(i - 1, "in") || spoken.is(i - 1, "since"));
    const bool is_sum = is_counted(end) && !(is_in && (ends_pair(i, end) || spoken.is(end, tables.people)));
    const bool is_more = is_sum || (spoken.is_number(end) && !counts_next) || spoken.is(end, "point");
    shown.push_back({std::to_string(*found), i, end - 1});
    if (add_phrase(shown, tables.eras)) return shown;
    return (is_pair || is_recent || is_cued) && !is_more ? shown : Shown{};
  }
  Amount amount;
  if (!read(i, amount) || amount.is_small || amount.is_decimal || amount.scale != amount.end) return {};
  shown.push_back({amount.text, i, amount.end - 1});
  return add_phrase(shown, tables.eras) ? shown : Shown{};
}

Shown Rules::ordinal(std::size_t i) const {
  int rest = 0;
  if (spoken.is(i, "hundred") && spoken.is(i + 1, "and") && !follows_number(i)) {
    const std::size_t n = spoken.below_hundred(i + 2, rest, true);  // "the hundred and first"
    if (n) return {{with_ordinal_suffix(std::to_string(100 + rest)), i, i + 1 + n}};
  }
  if (spoken.digit(i) && spoken.below_hundred(i + 1, rest, true) == 2 && !follows_number(i)) {
    // "one twenty fifth anniversary"; but "two fifty first graders", "one thirty second ad", "nine thirty first thing"
    Shown time;
    const std::string& next = spoken.word(i + 3);
    const bool is_apart = (!next.empty() && next.back() == 's') || spoken.is(i + 2, tables.counted) ||
                          (i > 0 && (spoken.is(i - 1, tables.divisions) || spoken.is(i - 1, tables.number_cues))) ||
                          hour_and_minute(i, time);
    if (spoken.is(i + 3, tables.streets) ? *spoken.digit(i) < 3 : !is_apart) {  // "seven thirty fifth avenue"
      return {{with_ordinal_suffix(std::to_string(100 * *spoken.digit(i) + rest)), i, i + 2}};
    }
  }
  if (spoken.digit(i) && *spoken.digit(i) < 3 && spoken.below_hundred(i + 1, rest, true) == 1 && rest > 9 &&
      spoken.is(i + 2, tables.streets) && !follows_number(i)) {  // "one sixteenth street"
    return {{with_ordinal_suffix(std::to_string(100 * *spoken.digit(i) + rest)), i, i + 1}};
  }
  const auto found = spoken.integer(i, true);
  // "one tenth" and "a hundredth" are fractions. "a twenty second pause" is neither a fraction nor an ordinal.
  if (!found || found->is_article || found->is_below(10) || follows_number(i)) return {};
  const bool after_article = i > 0 && spoken.is(i - 1, "a");
  if (after_article && (found->end == i + 1 || spoken.is(found->end - 1, tables.counted))) return {};
  const std::string& digits = found->digits;
  const int value = found->is_below(10000) ? std::stoi(digits) : 10000;
  const int highest = spoken.is(found->end, "avenue") ? 199 : 299;  // of a street
  if (spoken.is(found->end, tables.streets) && value > highest && value % 100 && value % 100 < 20) {
    return {};  // "five hundred fifth avenue" has the number of a house
  }
  const bool is_name = i > 1 && spoken.is(i - 1, "the") && spoken.is(i - 2, tables.monarchs);
  if (is_name) return words(i, found->end);  // "louis the fourteenth", as "henry the eighth"
  if (value < 100 && !is_ordered(i, found->end, value)) return {};
  return {{with_ordinal_suffix(digits), i, found->end - 1}};
}

// A date without its month: "on the fourteenth", "monday the fourteenth".
bool Rules::is_day(std::size_t i) const {
  return i > 1 && spoken.is(i - 1, "the") &&
         (spoken.is(i - 2, tables.day_prepositions) || spoken.is(i - 2, tables.opening_hours) ||
          (i > 2 && spoken.is(i - 2, "of") && spoken.is(i - 3, tables.parts_of_days)) ||
          tables.month_names.count(spoken.word(i - 2)));
}

// Whether something is numbered by an ordinal below a hundred. "fourteenth" alone may be misrecognized or belong to a
// name, "thirty second" may be a duration.
bool Rules::is_ordered(std::size_t first, std::size_t end, int value) const {
  const bool is_whole = first == 0 && spoken.word(end).empty();
  const bool is_numbered = spoken.is(end, tables.ordered) || spoken.is(end, tables.streets);
  const bool is_of_month = first > 0 && tables.month_names.count(spoken.word(first - 1));
  const bool is_before_month = tables.month_names.count(spoken.word(end)) != 0;  // "dated thirtieth april"
  if (is_whole || is_of_month || is_before_month || (value <= 31 && is_day(first))) return true;
  const bool has_article = first > 0 && spoken.is(first - 1, tables.determiners);
  if (spoken.is(end - 1, "second") && end - first == 2) {
    return !spoken.is(end, tables.brief) && (is_numbered || has_article);
  }
  const std::size_t noun = end + (spoken.is(end, "and") ? 2 : 1);  // "the fifteenth wedding anniversary"
  if (is_numbered || (has_article && (spoken.is(end, "of") || spoken.is(noun, tables.ordered)))) return true;
  if (spoken.is(end, "and") || spoken.is(end, tables.range)) {  // "the eleventh and twelfth floors"
    const bool is_article = spoken.is(end + 1, tables.determiners);
    if (!ordinal(end + 1 + is_article).empty()) return true;
  }
  return end - first > 1;
}

Shown Rules::amount(std::size_t i) const {
  Amount amount;
  if (!read(i, amount) || amount.is_small || amount.is_article) return {};
  if (spoken.is(i, "point") && amount.end < i + 3) return {};  // "at that point two men"
  if (i > 0 && spoken.is(i - 1, "buck")) return words(i, amount.end);
  Shown shown;
  add(shown, amount, i, "", amount.end);
  return shown;
}

Shown Rules::phrase(std::size_t i) const {
  std::string text;
  if (const std::size_t n = spoken.find(tables.phrases, i, text)) {
    // "at nine eleven"
    const bool is_time = i > 0 && spoken.is_number(i) && spoken.is(i - 1, tables.time_prepositions);
    if (!is_time && !follows_number(i) && !spoken.is_number(i + n)) {
      Shown shown{{text, i, i + n - 1}};
      if (text.find(' ') != std::string::npos && tables.phrases.count(text)) shown = words(i, i + n);  // an idiom
      return shown;
    }
  }
  const auto title = tables.titles.find(spoken.word(i));
  if (title == tables.titles.end()) return {};
  const std::string& name = spoken.word(i + 1);
  const auto is_name = [this](const auto& word) {
    return english_names().may_be_name(word) && !tables.roles.count(word);
  };
  const bool is_pair = spoken.is(i + 1, "and") && tables.titles.count(spoken.word(i + 2)) &&
                       is_name(spoken.word(i + 3));  // "Mr. and Mrs. Smith"
  if (!is_pair && !is_name(name)) return {};
  return {{title->second, i, i}};
}

}  // namespace asr_stream
