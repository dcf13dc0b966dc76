#include "text/en/number_rules.h"

#include <algorithm>

namespace asr_stream {

// Reads an amount that begins at a word; false: none does.
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
    if (integer->is_article && i > 0 && spoken.is(i - 1, tables.half)) return false;  // "half a million dollars"
    whole = with_commas(integer->digits);
    amount.end = integer->end;
    amount.is_article = integer->is_article;
    amount.is_small = integer->is_below(10) && sign.empty();
    amount.scale = integer->scale ? integer->end - 1 : integer->end;
    // "one fifty"
    int rest = 0;
    const std::size_t more = amount.is_small ? spoken.below_hundred(amount.end, rest) : 0;
    const bool counts_on = more && rest == std::stoi(integer->digits) + 1;
    if (more && rest >= 10 && !counts_on && !follows_number(begin) && !spoken.is_number(amount.end + more)) {
      whole += std::to_string(rest);
      amount.end += more;
      amount.scale = amount.end;
      amount.is_small = false;
      amount.is_pair = true;
    }
  } else if (spoken.word(i) == tables.number_zero) {
    amount.end = amount.scale = i + 1;
    amount.is_small = sign.empty();
  } else if (!spoken.is(i, tables.point)) {
    return false;
  }
  if (amount.scale == amount.end && !amount.is_article && !amount.is_pair && spoken.is(amount.end, tables.point)) {
    std::size_t end = 0;
    const std::string fraction = spoken.fraction(amount.end + 1, end);
    if (!fraction.empty()) {
      whole += "." + fraction;
      amount.end = amount.scale = end;
      amount.is_small = false;
      amount.is_decimal = true;
      if (tables.magnitudes.count(spoken.word(end))) ++amount.end;
    }
  }
  amount.text = sign + whole;
  return amount.end > i;
}

bool Rules::follows_number(std::size_t i) const { return i > 0 && spoken.is_number(i - 1); }

bool Rules::is_counted(std::size_t i) const {
  std::string unit;
  Currency currency;
  return spoken.is(i, tables.counted) || spoken.is(i, tables.cents) || spoken.find(tables.units, i, unit) ||
         spoken.find(tables.currencies, i, currency);
}

// An amount from word `first` on, with a `symbol` in front; its last token reaches to `end`.
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

bool Rules::add_phrase(Shown& shown, const NumberTables::Texts& table) const {
  std::string text;
  const std::size_t first = shown.back().last + 1, n = spoken.find(table, first, text);
  if (n) shown.push_back({text, first, first + n - 1});
  return n != 0;
}

Shown Rules::money(std::size_t i) const {
  Amount amount;
  Currency currency;
  if (!read(i, amount)) return {};
  const std::size_t n = spoken.find(tables.currencies, amount.end, currency);
  if (!n) return {};
  std::size_t end = amount.end + n;
  bool has_cents = false;
  if (amount.scale == amount.end && !amount.is_decimal) {
    const bool with_and = spoken.is(end, tables.conjunction);
    const std::size_t begin = end + with_and;
    int cents = 0;
    const std::size_t m = spoken.below_hundred(begin, cents);
    const bool named = m && spoken.is(begin + m, tables.cents);
    const bool follows = m && !with_and && cents >= 10 && !spoken.is_number(begin + m) && !is_counted(begin + m) &&
                         !spoken.is(begin + m, tables.point);
    if (named || (follows && currency.is_clear)) {
      has_cents = true;
      amount.text += (cents < 10 ? ".0" : ".") + std::to_string(cents);
      end = begin + m + named;
      amount.end = amount.scale = end;
    }
  }
  if (!currency.is_clear && !has_cents && amount.scale == amount.end) return {};
  Shown shown;
  if (amount.is_article && currency.is_singular) {  // "a hundred dollar bill", "a billion dollar company"
    add_word(shown, i);
    const bool has_scale = amount.scale != amount.end;
    shown.push_back({currency.symbol + amount.text, i + 1, has_scale ? i + 1 : end - 1});
    if (has_scale) shown.push_back({spoken.word(amount.scale), i + 2, end - 1});
  } else {
    add(shown, amount, i, currency.symbol, end);
  }
  return shown;
}

Shown Rules::measure(std::size_t i) const {
  Amount amount;
  std::string unit;
  if (!read(i, amount)) return {};
  const std::size_t n = spoken.find(tables.units, amount.end, unit);
  if (!n || (amount.is_article && unit[0] == ' ')) return {};
  Shown shown;
  const std::size_t end = amount.end + n;
  if (unit[0] == ' ' || amount.scale != amount.end) {
    add(shown, amount, i, "", amount.end);
    shown.push_back({unit.substr(unit[0] == ' '), amount.end, end - 1});
  } else {
    shown.push_back({amount.text + unit, i, end - 1});
  }
  return shown;
}

// "five to ten percent"; and "two or three hundred", which stays in words.
Shown Rules::range(std::size_t i) const {
  Amount low, high;
  if (follows_number(i) || !read(i, low) || low.is_article || low.scale != low.end || low.is_pair) return {};
  const std::size_t middle = low.end;
  const bool between = i > 0 && spoken.is(i - 1, tables.between) && spoken.is(middle, tables.conjunction);
  if (!between && !spoken.is(middle, tables.range)) return {};
  if (!read(middle + 1, high) || high.is_article) return {};
  Shown shown;
  for (const bool is_money : {true, false}) {
    const Shown rest = is_money ? money(middle + 1) : measure(middle + 1);
    if (rest.empty()) continue;
    Currency currency{"", true};
    if (is_money) spoken.find(tables.currencies, high.end, currency);
    add(shown, low, i, currency.symbol, middle);
    add_word(shown, middle);
    shown.insert(shown.end(), rest.begin(), rest.end());
    return shown;
  }
  if (!low.is_small || high.is_decimal || high.is_pair || half_of_day(high.end)) return {};
  for (std::size_t k = i; k < high.end; ++k) add_word(shown, k);
  return shown;
}

Shown Rules::digits(std::size_t i) const {
  const bool with_plus = spoken.is(i, tables.plus);
  const SpokenNumbers::DigitString found = spoken.digit_string(i + with_plus);
  const std::string& all = found.digits;
  if (all.size() < 2 || spoken.is(found.end, tables.point) || tables.magnitudes.count(spoken.word(found.end)) ||
      spoken.is(found.end, tables.hundred) || is_counted(found.end)) {
    return {};
  }
  const bool only_singles = found.num_singles == found.num_atoms;
  bool is_counting = all.size() < 7;  // "one two three", "one one one"
  for (std::size_t k = 2; k < all.size(); ++k) {
    is_counting = is_counting && all[k] - all[k - 1] == all[1] - all[0] && std::abs(all[1] - all[0]) <= 1;
  }
  const bool is_cued = i > 0 && spoken.is(i - 1, tables.number_cues);
  const bool is_string = only_singles ? is_cued || (all.size() >= 3 && (found.has_zero || !is_counting))
                                      : all.size() >= 7 && 2 * found.num_singles >= found.num_atoms;
  if (!is_string) return {};
  const std::size_t n = all.size();
  std::string text = all;
  const auto from = [&](std::size_t begin) {
    return all.substr(begin, 3) + "-" + all.substr(begin + 3, 3) + "-" + all.substr(begin + 6);
  };
  if (n == 7) text = all.substr(0, 3) + "-" + all.substr(3);
  if (n == 10) text = from(0);
  if (n == 11 && all[0] == '1') text = "1-" + from(1);
  if (n == 16) text = all.substr(0, 4) + " " + all.substr(4, 4) + " " + all.substr(8, 4) + " " + all.substr(12);
  if (with_plus) text = "+" + (n > 10 && n < 14 ? all.substr(0, n - 10) + " " + from(n - 10) : all);
  return {{text, i, found.end - 1}};
}

Shown Rules::year(std::size_t i) const {
  std::size_t end = 0;
  int century = 0;
  const std::size_t n = spoken.below_hundred(i, century);
  if (n == 1 && century >= 11 && century <= 20 && !follows_number(i)) {  // "nineteen eighties", "nineteen hundreds"
    const auto decade = tables.decades.find(spoken.word(i + 1));
    if (decade != tables.decades.end()) return {{std::to_string(century * 100 + decade->second) + "s", i, i + 1}};
    if (spoken.is(i + 1, tables.hundreds)) return {{std::to_string(century * 100) + "s", i, i + 1}};
  }
  const bool is_cued = i > 0 && spoken.is(i - 1, tables.year_prepositions);
  const auto found = spoken.year(i, end);
  Shown shown;
  if (found && !follows_number(i)) {
    const bool is_pair = !spoken.is(i + 1, tables.hundred) && !tables.magnitudes.count(spoken.word(i + 1));
    const bool is_recent = *found > 2000 && *found < 2100;
    const bool is_more = is_counted(end) || spoken.is_number(end) || spoken.is(end, tables.point);
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
  const auto found = spoken.integer(i, true);
  // "one tenth", "a hundredth" are fractions; "a twenty second pause" is none of these.
  if (!found || found->is_article || found->is_below(10) || follows_number(i)) return {};
  const bool after_article = i > 0 && spoken.is(i - 1, tables.article);
  if (after_article && (found->end == i + 1 || spoken.is(found->end - 1, tables.counted))) return {};
  return {{with_ordinal_suffix(found->digits), i, found->end - 1}};
}

Shown Rules::amount(std::size_t i) const {
  Amount amount;
  if (!read(i, amount) || amount.is_small || amount.is_article) return {};
  if (spoken.is(i, tables.point) && amount.end < i + 3) return {};  // "at that point two men"
  Shown shown;
  add(shown, amount, i, "", amount.end);
  return shown;
}

Shown Rules::phrase(std::size_t i) const {
  std::string text;
  if (const std::size_t n = spoken.find(tables.phrases, i, text)) {
    const bool is_time = i > 0 && spoken.is(i - 1, tables.time_prepositions);  // "at nine eleven"
    if (!is_time && !follows_number(i) && !spoken.is_number(i + n)) return {{text, i, i + n - 1}};
  }
  const auto title = tables.titles.find(spoken.word(i));
  if (title == tables.titles.end()) return {};
  const std::string& name = spoken.word(i + 1);
  const auto is_name = [this](const auto& word) { return english_names().may_be_name(word) && !tables.roles.count(word); };
  const bool is_pair = spoken.is(i + 1, tables.conjunction) && tables.titles.count(spoken.word(i + 2)) &&
                       is_name(spoken.word(i + 3));  // "Mr. and Mrs. Smith"
  if (!is_pair && !is_name(name)) return {};
  return {{title->second, i, i}};
}

}  // namespace asr_stream
