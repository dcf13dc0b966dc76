// Rules for spelled-out text: initials, e-mail and web addresses.
#include <algorithm>
#include <optional>
#include <string>

#include "text/en/number_rules.h"
#include "text/letter_case.h"

namespace asr_stream {

namespace {

bool is_word_letter(char c) { return c == 'a' || c == 'i' || c == 'o'; }

}  // namespace

// "f b i": FBI; "b twelve": B12. The words "a", "i" and "o" at either end are joined only to form known initials.
Shown Rules::letters(std::size_t i) const {
  std::string run;
  std::size_t end = i;
  for (; spoken.is_letter(end); ++end) run += spoken.word(end);
  if (run.empty()) return {};
  const auto is_known = [&](const std::string& text) { return tables.initials.count(text) != 0; };
  if (run.size() > 2 && is_word_letter(run[0]) && is_known(run.substr(1)) && !is_known(run)) {
    return {{run.substr(0, 1), i, i}};
  }
  if (run.size() > 2 && is_word_letter(run.back()) && is_known(run.substr(0, run.size() - 1)) && !is_known(run)) {
    run.pop_back();
    --end;
  }
  const bool is_article = spoken.is(i, "a"), is_named = i > 0 && spoken.is(i - 1, tables.determiners);
  const bool is_pronoun = run.size() > 1 && spoken.is(end - 1, "i");
  if (is_pronoun && !(is_named && is_known(run)) && spoken.is(end, tables.pronoun_verbs)) {  // "in t x i think"
    run.pop_back();
    --end;
  }
  if (spoken.is(i, "i") && run.find_first_not_of(run[0]) == std::string::npos) return {};  // "i i think"
  if (run.size() == 2 && is_article && is_known(run) && !is_pronoun && !is_named) return {};  // "a c program"
  std::string phrase;
  if (is_article && spoken.find(tables.phrases, i + 1, phrase) > 2) return {};  // "a b two b company"
  const bool goes_on = spoken.is(end, tables.range) || spoken.is(end, "and");
  if (run.size() == 2 && goes_on && spoken.is_letter(end + 1) && !is_word_letter(spoken.word(end + 1)[0]) &&
      !is_known(run)) {
    return {};  // "x y or z"
  }
  std::string ending;
  const std::string& next = spoken.word(end);  // "d v d's": the last letter may have an ending
  if (next.size() > 1 && next[0] >= 'a' && next[0] <= 'z' && (next.substr(1) == "s" || next.substr(1) == "'s") &&
      !is_word_letter(next[0]) && !(run.size() == 1 && is_article)) {
    run += next[0];
    ending = next.substr(1);
    ++end;
  }
  const auto known = tables.initials.find(run);
  std::string text = (known != tables.initials.end() ? known->second : to_upper(run)) + ending;
  // "b twelve", "e s three"
  if (ending.empty() && text.back() != '.' && !(run.size() == 1 && is_word_letter(run[0]))) {
    Amount amount;
    const SpokenNumbers::DigitString string = spoken.digit_string(end);
    const bool is_string =
        !string.digits.empty() && string.num_singles == string.num_atoms && !spoken.is(end, tables.zeros);
    const bool is_count = string.num_atoms == 1 && (spoken.is(string.end, "of") || spoken.is(string.end, "more"));
    if (is_string && !is_count && !spoken.is(string.end, "point") && !is_counted(string.end)) {
      text += string.digits;
      end = string.end;
      // "a b seven three k": letters after digits, and so on
      while (string.digits.size() > 1 && (spoken.any_digit(end) || spoken.is_letter(end))) {
        const auto digit = spoken.any_digit(end);
        if (!digit && is_word_letter(spoken.word(end)[0])) break;
        text += digit ? std::to_string(*digit) : to_upper(spoken.word(end));
        ++end;
      }
      return {{text, i, end - 1}};
    }
    if (run.size() == 1 && !is_count && read(end, amount) && amount.scale == amount.end && !amount.is_decimal &&
        (amount.text.size() <= 2 || amount.is_pair) && !is_counted(amount.end)) {
      return {{text + amount.text, i, amount.end - 1}};
    }
  }
  const bool has_word = is_word_letter(run[0]) || is_word_letter(run.back());
  if (run.size() < 2 || (run.size() == 2 && has_word && known == tables.initials.end())) return {};
  return {{text, i, end - 1}};
}

// "apartment three b"
Shown Rules::lettered(std::size_t i) const {
  int number = 0;
  const std::size_t n = spoken.below_hundred(i, number), end = i + n;
  if (!n || i == 0 || !spoken.is(i - 1, tables.with_letter)) return {};
  if (!spoken.is_letter(end) || is_word_letter(spoken.word(end)[0]) || spoken.is_letter(end + 1)) return {};
  return {{std::to_string(number) + to_upper(spoken.word(end)), i, end}};
}

// "seven a b c one two three", "one z nine nine nine a a one": digits, letters, digits.
Shown Rules::code(std::size_t i) const {
  if (!spoken.any_digit(i) || follows_number(i) || (i > 0 && spoken.is_letter(i - 1)) || half_of_day(i + 1)) return {};
  std::string text;
  std::size_t end = i, num_digits = 0, longest = 0, num_letters = 0;
  bool ends_in_digit = false;
  for (;; ++end) {
    const std::optional<int> digit = spoken.any_digit(end);
    if (!digit && !spoken.is_letter(end)) break;
    ends_in_digit = digit.has_value();
    num_digits += ends_in_digit;
    num_letters = ends_in_digit ? 0 : num_letters + 1;
    longest = std::max(longest, num_letters);
    text += digit ? std::to_string(*digit) : to_upper(spoken.word(end));
  }
  const bool is_code = num_digits >= 3 && longest >= 2 && ends_in_digit && !spoken.is_number(end);
  return is_code && !is_counted(end) ? Shown{{text, i, end - 1}} : Shown{};
}

// "twelve twenty one maple street", "two twenty one b baker street"
Shown Rules::house(std::size_t i) const {
  int first = 0, second = 0;
  const std::size_t n = spoken.below_hundred(i, first);
  if (!n || follows_number(i)) return {};
  std::size_t end = i + n;
  if (spoken.is(end, "hundred")) {
    const std::size_t m = spoken.below_hundred(++end, second);
    end += m;
  } else if (spoken.is(end, tables.zeros) && spoken.digit(end + 1)) {
    second = *spoken.digit(end + 1);
    end += 2;
  } else if (const std::size_t m = spoken.below_hundred(end, second)) {
    if (second < 10) return {};
    end += m;
  } else {
    return {};
  }
  std::string text = std::to_string(100 * first + second);
  if (spoken.is_letter(end) && !is_word_letter(spoken.word(end)[0])) text += to_upper(spoken.word(end++));
  for (std::size_t k = 0; k < 3; ++k) {  // words of the street name
    const std::string& name = spoken.word(end + k);
    if (k > 0 && spoken.is(end + k, tables.streets)) return {{text, i, end - 1}};
    if (name.empty() || spoken.is_number(end + k) || !english_names().may_be_name(name)) return {};
  }
  return spoken.is(end + 3, tables.streets) ? Shown{{text, i, end - 1}} : Shown{};
}

// A name between the dots of an address: a word, or letters and digits. Returns the number of words, or 0. of_domain: a
// word may follow the letters ("g mail").
std::size_t Rules::label(std::size_t i, std::string& text, bool of_domain) const {
  const std::size_t begin = i;
  text.clear();
  const auto take = [&](bool with_letters) {
    for (;; ++i) {
      int value = 0;
      if (with_letters && spoken.is_letter(i)) {
        text += spoken.word(i);
      } else if (const auto digit = spoken.any_digit(i)) {
        text += std::to_string(*digit);
      } else if (const std::size_t n = spoken.below_hundred(i, value)) {
        text += std::to_string(value);
        i += n - 1;
      } else {
        return;
      }
    }
  };
  take(true);
  const std::string& word = spoken.word(i);
  const bool is_mark = spoken.is(i, "at") || tables.address_marks.count(word) || spoken.is(i, "slash") ||
                       spoken.is(i, "colon") || word.empty();
  const bool may_begin = text.empty() || (of_domain && !spoken.is(i, tables.top_level_domains));
  if (!is_mark && word.find('\'') == std::string::npos && may_begin) {
    if (tables.never_local.count(word) && !(of_domain && spoken.is(i, tables.top_level_domains))) return 0;
    text += word;
    ++i;
    if (!of_domain) take(false);
  }
  return i - begin;
}

std::size_t Rules::domain(std::size_t i, std::string& text) const {
  std::string all, next;
  std::size_t at = i, end = i;
  while (const std::size_t n = label(at, next, true)) {
    if (at == i && (tables.never_local.count(next) || (n == 1 && spoken.is(i, "a")))) return 0;
    all += next;
    bool spelled = n == next.size() && n >= 2 && n <= 3;
    for (std::size_t k = at; k < at + n; ++k) spelled = spelled && spoken.is_letter(k);
    const bool is_top = spelled || (tables.top_level_domains.count(next) && (n == 1 || spelled));
    at += n;
    if (is_top && all.size() > next.size()) {  // after a dot
      text = all;
      end = at;
    }
    if (!spoken.is(at, "dot")) break;
    all += '.';
    ++at;
  }
  return end - i;
}

std::size_t Rules::ip_address(std::size_t i, std::string& text) const {
  const std::size_t begin = i;
  text.clear();
  for (int part = 0; part < 4; ++part) {
    const SpokenNumbers::DigitString number =
        spoken.is(i, tables.zeros) ? SpokenNumbers::DigitString{"0", 1, 1, true, i + 1} : spoken.digit_string(i);
    if (number.digits.empty() || number.digits.size() > 3) return 0;
    text += (part ? "." : "") + number.digits;
    i = number.end;
    if (part < 3 && !spoken.is(i++, "dot")) return 0;
  }
  return i - begin;
}

Shown Rules::address(std::size_t i) const {
  std::string text, next;
  std::size_t n = follows_number(i) ? 0 : ip_address(i, text);
  if (n) return {{text, i, i + n - 1}};
  // E-mail: names and marks, "at", a domain.
  std::size_t at = i;
  std::string local;
  while ((n = label(at, next, false)) != 0) {
    local += next;
    at += n;
    const auto mark = tables.address_marks.find(spoken.word(at));
    if (mark == tables.address_marks.end()) break;
    local += mark->second;
    ++at;
  }
  if (n && spoken.is(at, "at")) {
    n = domain(at + 1, next);
    if (!n && tables.mailboxes.count(local)) {  // "info at my company dot org": "at" is not a preposition here
      std::string joined;
      for (std::size_t k = 1; k <= 3 && !spoken.is(at + k, "dot") && !spoken.word(at + k).empty(); ++k) {
        joined += spoken.word(at + k);
        if (!spoken.is(at + k + 1, "dot") || !spoken.is(at + k + 2, tables.top_level_domains)) continue;
        return {{local + "@" + joined + "." + spoken.word(at + k + 2), i, at + k + 2}};
      }
    }
    if (n) return {{local + "@" + next, i, at + n}};
  }
  // Web: a protocol, a domain, a path.
  at = i;
  std::string protocol;
  const std::size_t letters = label(at, next, true);
  if (letters && tables.protocols.count(next) && spoken.is(at + letters, "colon") &&
      spoken.is(at + letters + 1, "slash") && spoken.is(at + letters + 2, "slash")) {
    protocol = next + "://";
    at += letters + 3;
  }
  n = domain(at, text);
  if (!n) return {};
  at += n;
  while (spoken.is(at, "slash") && (n = label(at + 1, next, true)) != 0) {
    text += "/" + next;
    at += 1 + n;
  }
  return {{protocol + text, i, at - 1}};
}

}  // namespace asr_stream
