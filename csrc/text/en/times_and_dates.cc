// Rules for times and dates.
#include <string>

#include "text/en/number_rules.h"

namespace asr_stream {

namespace {

std::string clock(int hour, int minute) {
  return std::to_string(hour) + (minute < 10 ? ":0" : ":") + std::to_string(minute);
}

}  // namespace

// "p m", but not the end of "which one am i".
std::size_t Rules::half_of_day(std::size_t i) const {
  std::string text;
  const std::size_t n = spoken.find(tables.halves_of_day, i, text);
  return spoken.is(i, tables.pronoun_verbs) && spoken.is(i + n, "i") ? 0 : n;
}

bool Rules::is_clock_time(std::size_t i) const {
  std::string text;
  return half_of_day(i) || spoken.find(tables.zones, i, text) || spoken.find(tables.parts_of_day, i, text);
}

// "nine thirty", "two p m", "three o'clock". The context decides whether it is a time.
bool Rules::hour_and_minute(std::size_t i, Shown& shown) const {
  int hour = 0, minute = 0;
  const std::size_t n = spoken.below_hundred(i, hour);
  const bool is_at = i > 0 && spoken.is(i - 1, "at");  // "at seventeen forty five"
  if (!n || hour < 1 || hour > (is_at ? 23 : 12)) return false;
  std::size_t end = i + n;
  if (spoken.is(end, tables.oclock)) {
    shown = {{std::to_string(hour), i, end - 1}, {"o'clock", end, end}};
    return true;
  }
  const bool is_oh = spoken.is(end, tables.zeros) && spoken.digit(end + 1);
  const std::size_t m = is_oh ? 2 : spoken.below_hundred(end, minute);
  if (is_oh) minute = *spoken.digit(end + 1);
  if (!m || minute > 59 || (minute < 10 && !is_oh)) {
    shown = {{std::to_string(hour), i, end - 1}};
    return half_of_day(end) != 0;
  }
  end += m;
  shown = {{clock(hour, minute), i, end - 1}};
  if (is_clock_time(end)) return true;
  if (spoken.is(end, "over") && spoken.is_number(end + 1)) return false;
  if (is_counted(end) || is_compound(end) || spoken.is_number(end) || spoken.is(end, "point")) return false;
  if (spoken.is(end, tables.times_of_day)) return true;
  if (spoken.is(end, "a") && spoken.is(end + 1, tables.rates)) return false;  // "two thirty a night"
  if (i == 0 && spoken.word(end).empty() && !is_oh) return true;  // the answer to a question
  const bool is_year = i > 0 && (spoken.is(i - 1, "year") || (hour > 10 && spoken.is(i - 1, "in")));
  if (is_year || (i > 0 && spoken.is(i - 1, tables.number_cues))) return false;
  return (minute % 15 == 0 && !is_oh) || (i > 0 && spoken.is(i - 1, tables.time_prepositions));
}

// "half past three", "a quarter to one", "ten past eight".
bool Rules::relative_time(std::size_t i, Shown& shown) const {
  const std::size_t begin = i;
  int minute = 0, hour = 0;
  i += spoken.is(i, "a");
  const bool is_half = spoken.is(i, "half"), is_quarter = spoken.is(i, "quarter");
  bool says_minutes = is_quarter;
  if (is_half || is_quarter) {
    minute = is_half ? 30 : 15;
    ++i;
  } else {
    const std::size_t n = begin == i ? spoken.below_hundred(i, minute) : 0;
    if (!n || minute >= 30) return false;
    i += n;
    says_minutes = spoken.is(i, tables.minutes);
    i += says_minutes;
  }
  const bool is_past = spoken.is(i, "past");
  if (!is_past && (is_half || !spoken.is(i, "to"))) return false;
  const std::size_t n = spoken.below_hundred(i + 1, hour);
  if (!n || hour < 1 || hour > 12) return false;
  i += 1 + n;
  const bool is_clock = is_clock_time(i);
  if (is_counted(i) || spoken.is_number(i) || spoken.is(i, "point")) return false;
  const bool is_followed = !spoken.word(i).empty() && !tables.roles.count(spoken.word(i));
  const bool is_at = begin > 0 && spoken.is(begin - 1, tables.clock_prepositions) && minute % 5 == 0;
  if (!is_past && (says_minutes ? is_followed && !is_clock : !is_at || !is_clock)) {
    return false;  // "from ten to eleven", "a quarter to one man"
  }
  if (!is_past) {
    hour = hour == 1 ? 12 : hour - 1;
    minute = 60 - minute;
  }
  shown = {{clock(hour, minute), begin, i - 1}};
  return true;
}

Shown Rules::time(std::size_t i) const {
  Shown shown;
  if (follows_number(i) || (!hour_and_minute(i, shown) && !relative_time(i, shown))) return {};
  if (half_of_day(shown.back().last + 1)) add_phrase(shown, tables.halves_of_day);
  add_phrase(shown, tables.zones);
  return shown;
}

// "oh six hundred hours", "fourteen hundred hours".
Shown Rules::military_time(std::size_t i) const {
  int hour = 0;
  const bool has_zero = spoken.is(i, tables.zeros);
  const std::size_t begin = i + has_zero, n = spoken.below_hundred(begin, hour), end = begin + n;
  const bool is_hour = n && (has_zero ? hour < 10 : hour >= 10 && hour <= 24);
  if (!is_hour || follows_number(i) || !spoken.is(end, "hundred") || !spoken.is(end + 1, "hours") ||
      spoken.is(end + 2, "of")) {
    return {};
  }
  return {{(has_zero ? "0" : "") + std::to_string(hour) + "00", i, end}};
}

// "the ninth and the eleventh of may", "the ninth of the eleventh".
Shown Rules::days(std::size_t i) const {
  int first = 0, second = 0;
  const std::size_t n = spoken.below_hundred(i, first, true), middle = i + n;
  if (!n || first > 31 || follows_number(i)) return {};
  const bool of = spoken.is(middle, "of");
  if (!of && !spoken.is(middle, "and") && !spoken.is(middle, tables.range)) return {};
  const bool has_article = spoken.is(middle + 1, tables.determiners);
  const std::size_t begin = middle + 1 + has_article, m = spoken.below_hundred(begin, second, true), end = begin + m;
  if (!m || second > (of ? 12 : 31) || (of && (!has_article || !spoken.word(end).empty()))) return {};
  const bool has_month = spoken.is(end, "of") && tables.month_names.count(spoken.word(end + 1));
  if (!of && !has_month) return {};
  Shown shown{{with_ordinal_suffix(std::to_string(first)), i, middle - 1}};
  for (std::size_t k = middle; k < begin; ++k) add_word(shown, k);
  const Shown rest = has_month ? date(begin) : Shown{{with_ordinal_suffix(std::to_string(second)), begin, end - 1}};
  shown.insert(shown.end(), rest.begin(), rest.end());
  return shown;
}

Shown Rules::date(std::size_t i) const {
  const auto day_ordinal = [&](std::size_t at, std::size_t& end) {
    const auto found = spoken.integer(at, true);
    if (!found || !found->is_below(32) || found->is_article) return std::string();
    end = found->end;
    return found->digits;
  };
  const auto year = [&](std::size_t at, Shown& shown) {
    std::size_t end = 0;
    const auto found = spoken.year(at, end);
    if (!found || is_counted(end)) return false;
    shown.push_back({std::to_string(*found), at, end - 1});
    return true;
  };
  std::size_t end = 0;
  auto month = tables.month_names.find(spoken.word(i));
  if (month == tables.month_names.end()) {  // "twenty fifth of july"
    const std::string day = day_ordinal(i, end);
    if (day.empty()) return {};
    month = tables.month_names.find(spoken.word(end + 1));
    if (!spoken.is(end, "of") || month == tables.month_names.end()) return {};
    Shown shown{{with_ordinal_suffix(day), i, end - 1}};
    add_word(shown, end);
    shown.push_back({month->second, end + 1, end + 1});
    year(end + 2, shown);
    return shown;
  }
  const bool is_doubtful = tables.doubtful_months.count(month->first) != 0;
  if (is_doubtful && i > 0 && spoken.is(i - 1, tables.subjects)) return {};  // "i may second that"
  Shown of_year{{month->second, i, i}};
  const bool has_year = year(i + 1, of_year);
  std::string day = day_ordinal(i + 1, end);
  const bool is_ordinal = !day.empty();
  if (!is_ordinal) {
    int number = 0;
    const std::size_t n = spoken.below_hundred(i + 1, number);
    end = i + 1 + n;
    std::size_t year_end = 0;
    const bool has_more = spoken.is_number(end + (number == 0)) &&
                          !(spoken.year(end, year_end) && !spoken.is_number(year_end) && !is_counted(year_end));
    const bool is_amount = number < 10 && (spoken.is(end, "of") || (i > 0 && spoken.is(i - 1, "in")));
    const bool fits = n && number <= 31 && !is_counted(end) && !has_more && !is_amount;
    if (fits && (number >= 10 || !is_doubtful)) day = std::to_string(number);
  }
  Shown of_day{{month->second, i, i}};
  if (!day.empty()) {
    of_day.push_back({is_ordinal ? with_ordinal_suffix(day) : day, i + 1, end - 1});
    if (year(end, of_day)) of_day[1].text = day + ",";
  }
  if (day.empty() || (has_year && of_year.back().last >= of_day.back().last)) return has_year ? of_year : Shown{};
  return of_day;
}

}  // namespace asr_stream
