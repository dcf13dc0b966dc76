// Rules for two numbers that belong together: opening hours, ranges, odds, heights, counting, verses, sets. If only one
// of them were in digits, they would no longer look related.
#include <algorithm>
#include <optional>
#include <string>

#include "text/en/number_rules.h"

namespace asr_stream {

namespace {

// The value of an amount below a thousand without a sign or a fraction; otherwise -1.
int small_value(const Amount& amount) {
  const bool is_plain = !amount.is_decimal && amount.scale == amount.end && amount.text[0] != '-';
  return is_plain && amount.text.size() <= 3 ? std::stoi(amount.text) : -1;
}

}  // namespace

// "nine to five p m", "between two and four p m", "eight thirty to four": at least one of them is certainly a time.
Shown Rules::hours(std::size_t i) const {
  if (follows_number(i)) return {};
  Shown low, high;
  const bool low_is_time = hour_and_minute(i, low);
  if (low.empty()) return {};
  const bool has_minute = low[0].text.find(':') != std::string::npos;
  if (!low_is_time && has_minute) return {};
  if (half_of_day(low.back().last + 1)) add_phrase(low, tables.halves_of_day);
  const std::size_t middle = low.back().last + 1;
  const bool between = i > 0 && spoken.is(i - 1, "between") && spoken.is(middle, "and");
  const bool is_until = spoken.is(middle, "to");
  if (!between && !spoken.is(middle, tables.range)) return {};
  const bool is_to_hour = is_until && !low_is_time && i > 0 && spoken.is(i - 1, tables.clock_prepositions) &&
                          std::stoi(low[0].text) % 5 == 0;  // "at ten to nine p m"
  if (is_to_hour) return {};
  const bool high_is_time = hour_and_minute(middle + 1, high);
  if (high.empty()) return {};
  if (!high_is_time) {
    const std::size_t end = high.back().last + 1;
    const bool is_bare = high[0].text.find(':') == std::string::npos;
    const bool is_apart = spoken.word(end).empty() ||
                          (english_names().no_names.count(spoken.word(end)) && !spoken.is(end, "of"));
    const bool is_span = has_minute && !is_bare;  // "from two ten to four fifty"
    if (!is_apart || (!is_bare && !is_span)) return {};
    if (!low_is_time) {
      const std::size_t before = i - (i > 0 && spoken.is(i - 1, "from"));
      if (!is_until || before == 0 || !spoken.is(before - 1, tables.opening_hours)) return {};
    }
  }
  add_word(low, middle);
  low.insert(low.end(), high.begin(), high.end());
  if (half_of_day(low.back().last + 1)) add_phrase(low, tables.halves_of_day);
  add_phrase(low, tables.zones);
  return low;
}

// "forty to fifty thousand", "two or three hundred dollars": the factor that also applies to the first number; 1 if
// none.
int Rules::shared_factor(const Amount& low, const Amount& high) const {
  const auto magnitude = tables.magnitudes.find(spoken.word(high.end - 1));
  const bool is_thousands = magnitude != tables.magnitudes.end() && magnitude->second == 1;
  const int factor = is_thousands ? 1000 : spoken.is(high.end - 1, "hundred") ? 100 : 1;
  std::string digits = high.text;
  digits.erase(std::remove(digits.begin(), digits.end(), ','), digits.end());
  if (factor == 1 || high.is_decimal || high.scale != high.end || digits.size() > 6) return 1;
  const int first = small_value(low);
  return first > 0 && first < std::stoi(digits) / factor ? factor : 1;
}

// "john three sixteen"
Shown Rules::verse(std::size_t i) const {
  if (i == 0) return {};
  const bool is_named = i > 1 && (spoken.is(i - 2, "in") || spoken.is(i - 2, "from") || spoken.is(i - 2, "read"));
  if (!spoken.is(i - 1, tables.books) && !(is_named && spoken.is(i - 1, tables.doubtful_books))) return {};
  int chapter = 0, number = 0;
  const std::size_t n = spoken.below_hundred(i, chapter), m = n ? spoken.below_hundred(i + n, number) : 0;
  const std::size_t end = i + n + m;
  const bool is_psalm = spoken.is(i - 1, "psalm") && chapter == 1;  // "psalm one nineteen"
  if (!m || number < 10 || is_psalm || is_counted(end) || spoken.is_number(end) || is_clock_time(end)) return {};
  return {{std::to_string(chapter) + ":" + std::to_string(number), i, end - 1}};
}

// The sets of a match: "six four six three"; stays if neither a match nor a code is meant.
Shown Rules::sets(std::size_t i) const {
  if (follows_number(i)) return {};
  Shown shown;
  std::size_t end = i;
  for (;; end += 2) {
    const std::optional<int> first = spoken.any_digit(end);
    const std::optional<int> second = first ? spoken.any_digit(end + 1) : std::nullopt;  // looks no further than needed
    if (!second) break;
    const int most = std::max(*first, *second), least = std::min(*first, *second);
    if (!(most == 6 && least <= 4) && !(most == 7 && (least == 5 || least == 6))) return {};
    if (!shown.empty()) shown.back().text += ",";
    shown.push_back({std::to_string(*first) + "-" + std::to_string(*second), end, end + 1});
  }
  if (shown.size() < 2 || shown.size() > 5 || spoken.is_number(end) || is_counted(end) || spoken.is(end, "point")) {
    return {};
  }
  const bool is_named = spoken.is(end, tables.copulas) && (spoken.is(end + 1, tables.number_cues) ||
                                                           spoken.is(end + 2, tables.number_cues));
  if (is_named) return {};  // "six four six three is the code"
  for (std::size_t k = 1; k <= std::min<std::size_t>(i, 5); ++k) {
    if (spoken.is(i - k, tables.number_cues) || spoken.is(i - k, tables.string_cues)) return {};
    if (spoken.is(i - k, tables.wins)) return shown;
  }
  return shown.size() == 2 ? words(i, end) : Shown{};
}

// "five to ten percent", "twenty one to seven"; and "two or three hundred", "ten to one", which stay in words.
Shown Rules::range(std::size_t i) const {
  Amount low, high;
  if (follows_number(i) || !read(i, low) || low.is_article || low.scale != low.end || low.is_pair) return {};
  const std::size_t middle = low.end;
  std::string ignored;
  const bool between = i > 0 && spoken.is(i - 1, "between") && spoken.is(middle, "and");
  const std::size_t out_of = spoken.find(tables.out_of, middle, ignored);
  const bool is_share = out_of || spoken.is(middle, "in") || spoken.is(middle, "by");
  const bool is_sum = !between && spoken.is(middle, "and");
  if (!between && !is_share && !is_sum && !spoken.is(middle, tables.range)) return {};
  const std::size_t begin = middle + (out_of ? out_of : 1);
  if (!read(begin, high) || high.is_article) return {};
  if (is_sum) {  // "eight and thirty"
    const int value = small_value(high);
    const bool is_alone = low.is_small && low.text != "1" && value > 12 && value < 100 && !spoken.is_number(high.end);
    return is_alone && (value % 10 == 0 || !is_counted(high.end)) ? words(i, high.end) : Shown{};
  }
  const int factor = is_share ? 1 : shared_factor(low, high);
  Amount multiplied = low;
  if (factor > 1) multiplied.text = with_commas(std::to_string(factor * small_value(low)));
  Shown shown;
  for (const bool is_money : {true, false}) {
    const Shown rest = is_share ? Shown{} : is_money ? money(begin) : measure(begin);
    if (rest.empty()) continue;
    Currency currency{"", true};
    if (is_money) spoken.find(tables.currencies, high.end, currency);
    add(shown, multiplied, i, currency.symbol, middle);
    add_word(shown, middle);
    shown.insert(shown.end(), rest.begin(), rest.end());
    return shown;
  }
  Shown time;
  if (half_of_day(high.end) || (!out_of && is_counted(middle)) || relative_time(i, time)) return {};
  const int first = small_value(low), second = small_value(high);
  if (spoken.is(middle, "in")) {  // "one in ten thousand"
    const std::size_t size = high.text.size();
    const bool is_hundreds = size >= 3 && high.text.compare(size - 2, 2, "00") == 0 && high.text != "2,000";
    const bool is_round = high.scale != high.end || is_hundreds;
    const bool is_odds = low.is_small && second > 0 && second < 100 && !high.is_pair && first < second;
    if (is_odds && second <= 10) return spoken.is(high.end, tables.durations) ? Shown{} : words(i, high.end);
    std::size_t end = 0;
    const bool is_counted_people = spoken.is(high.end, "people") || spoken.is(high.end, "of");
    if (first != 1 || spoken.year(begin, end) || (!is_round && !(is_odds && is_counted_people))) return {};
  } else if (low.is_small && high.is_small) {
    return words(i, high.end);
  } else if (low.is_small) {
    if (high.is_decimal || high.is_pair) return {};
    if (second <= (is_share ? 10 : 12) || second >= 100) return words(i, high.end);
  } else if (high.is_small) {
    if (first < 0 || spoken.is(high.end, "of")) return {};
    if (!is_share && first <= 12) return words(i, high.end);
  } else if (factor < 1000) {
    return {};
  }
  add(shown, multiplied, i, "", middle);
  for (std::size_t k = middle; k < begin; ++k) add_word(shown, k);
  add(shown, high, begin, "", high.end);
  return shown;
}

// "five foot eleven", "seven pounds eleven ounces"
Shown Rules::height(std::size_t i) const {
  int rest = 0;
  if (!spoken.digit(i) || follows_number(i)) return {};
  const std::size_t n = spoken.below_hundred(i + 2, rest), end = i + 2 + n;
  if (!n || spoken.is_number(end)) return {};
  const bool is_height = spoken.is(i + 1, tables.feet) && rest <= 11;
  const bool is_apart = rest >= 10 && !is_counted(end);
  const bool is_weight = spoken.is(i + 1, tables.pounds) && rest <= 15 && (is_apart || spoken.is(end, tables.ounces));
  return is_height || is_weight ? words(i, end) : Shown{};
}

// "eight nine ten"
Shown Rules::counting(std::size_t i) const {
  int value = 0, last = 0;
  std::size_t end = i, count = 0;
  while (const std::size_t n = spoken.below_hundred(end, value)) {
    if (count > 0 && value != last + 1) break;
    last = value;
    end += n;
    ++count;
  }
  if (count < 3 || last < 10 || last > 12 || follows_number(i) || spoken.is_number(end)) return {};
  return i > 0 && spoken.is(i - 1, tables.number_cues) ? Shown{} : words(i, end);
}

}  // namespace asr_stream
