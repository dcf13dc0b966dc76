// Rules for amounts of money: with a currency, and prices without one.
#include <algorithm>
#include <string>

#include "text/en/number_rules.h"

namespace asr_stream {

// Whether one of the four previous words is a verb of paying.
bool Rules::means_money(std::size_t i) const {
  for (std::size_t k = 1; k <= std::min<std::size_t>(i, 4); ++k) {
    if (spoken.is(i - k, tables.of_money)) return true;
  }
  return false;
}

// "that'll be", "comes to", "the total is"
bool Rules::follows_total(std::size_t i) const {
  if (i < 2) return false;
  if (spoken.is(i - 1, "be")) {
    return spoken.is(i - 2, "that'll") || (i > 2 && spoken.is(i - 2, "will") && spoken.is(i - 3, "that"));
  }
  if (spoken.is(i - 1, "to")) return spoken.is(i - 2, "comes") || spoken.is(i - 2, "came");
  return spoken.is(i - 1, tables.copulas) && spoken.is(i - 2, tables.totals);
}

Shown Rules::money(std::size_t i) const {
  Amount amount;
  Currency currency;
  if (spoken.is(i, "a") && spoken.find(tables.currencies, i + 1, currency) && currency.is_singular) {
    int cents = 0;  // "a dollar fifty"
    const std::size_t n = spoken.below_hundred(i + 2, cents), end = i + 2 + n;
    if (!n || cents < 10 || is_counted(end) || spoken.is_number(end)) return {};
    return {{currency.symbol + "1." + std::to_string(cents), i, end - 1}};
  }
  if (!read(i, amount)) return {};
  const std::size_t n = spoken.find(tables.currencies, amount.end, currency);
  if (!n) return {};
  std::size_t end = amount.end + n;
  const bool is_clear = currency.is_clear || (means_money(i) && !spoken.is(end, "of"));
  bool has_cents = false;
  if (amount.scale == amount.end && !amount.is_decimal) {
    const bool with_and = spoken.is(end, "and");
    const std::size_t begin = end + with_and;
    int cents = 0;
    const std::size_t m = spoken.below_hundred(begin, cents);
    const bool named = m && spoken.is(begin + m, tables.cents);
    const bool follows = m && !with_and && cents >= 10 && !spoken.is_number(begin + m) && !is_counted(begin + m) &&
                         !spoken.is(begin + m, "point");
    const bool is_price = is_clear || (currency.has_cents && cents >= 20);  // not "seven pounds eleven", a weight
    if (named || (follows && is_price)) {
      has_cents = true;
      amount.text += (cents < 10 ? ".0" : ".") + std::to_string(cents);
      end = begin + m + named;
      amount.end = amount.scale = end;
    }
  }
  if (!is_clear && !has_cents && amount.scale == amount.end) return {};
  const std::size_t comma = amount.text.find(',');
  if (amount.is_pair && comma != std::string::npos && !has_cents && currency.has_cents) {  // "twelve fifty dollars"
    amount.text.erase(comma, 1);
    amount.text.insert(amount.text.size() - 2, ".");
  }
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

// "three ninety nine a pound", "that'll be twelve ninety five"; and "it's two fifty", which may be a time, a price or a
// number, and stays.
Shown Rules::price(std::size_t i) const {
  int units = 0, cents = 0;
  const std::size_t n = spoken.below_hundred(i, units);
  const bool is_oh = n && spoken.is(i + n, tables.zeros) && spoken.digit(i + n + 1);
  const std::size_t m = is_oh ? 2 : n ? spoken.below_hundred(i + n, cents) : 0, end = i + n + m;
  if (is_oh) cents = *spoken.digit(i + n + 1);
  if (!m || (cents < 10 && !is_oh) || follows_number(i) || spoken.is_number(end) || is_counted(end) ||
      spoken.is(end, "point") || spoken.is(end, tables.range)) {
    return {};
  }
  const Shown shown{{std::to_string(units) + (cents < 10 ? ".0" : ".") + std::to_string(cents), i, end - 1}};
  if (spoken.is(end, "apiece") || (spoken.is(end, "a") && spoken.is(end + 1, tables.sold_by))) return shown;
  if (spoken.is(end, "a") && spoken.is(end + 1, tables.rates)) return {};
  if (follows_total(i)) return shown;
  if (is_clock_time(end) || spoken.is(end, tables.times_of_day) || spoken.is(end, "over")) return {};
  const bool for_whom = i > 1 && spoken.is(i - 1, tables.buyers);  // "it cost me"
  if (i > for_whom && spoken.is(i - 1 - for_whom, tables.of_money)) {
    const bool is_usual = cents % 10 == 5 || cents % 10 == 9;
    if (units >= 17 && (!is_usual || spoken.is(end, "in"))) return {};  // "he spent nineteen eighty four in london"
    return units > 9 || is_usual ? shown : words(i, end);
  }
  const bool it_is = i > 0 && (spoken.is(i - 1, tables.it_is) ||
                               (i > 1 && spoken.is(i - 1, tables.copulas) && spoken.is(i - 2, "it")));
  return it_is && units < 13 && (is_oh || cents % 15 != 0) ? words(i, end) : Shown{};
}

}  // namespace asr_stream
