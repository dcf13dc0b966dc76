// The words of a language that numbers are spoken with, and its titles: all that text/numbers.h and the rule of
// text/punctuation.h for names know of it.
//
// A language is a file such as text/english.cc; words are in lower case, phrases have one space between their words.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace asr_stream {

struct Currency {
  std::string symbol;  // before the amount
  bool is_clear;       // or another meaning of the word is likelier, unless cents or a magnitude are named
  bool is_singular = false;  // "a hundred dollar bill": the article is not the number's
};

struct NumberTables {
  using Words = std::unordered_set<std::string>;
  using Values = std::unordered_map<std::string, int>;
  using Texts = std::unordered_map<std::string, std::string>;

  // Cardinals and ordinals.
  Values small;                // one to nineteen
  Values tens;                 // twenty to ninety
  Values ordinals;             // first to nineteenth
  Values ordinal_tens;         // twentieth to ninetieth
  Values decades;              // twenties to nineties
  Values magnitudes;           // thousand: 1, million: 2, ...: thousands to the power of
  Values ordinal_magnitudes;   // thousandth
  Values repeats;              // double: 2
  Words zeros;                 // the first of which is said of numbers, the others only among digits
  Words hundred, hundredth, hundreds, article, conjunction, point, minus, plus;
  std::string number_zero;     // what stands for 0 by itself

  // Times and dates.
  Texts month_names;           // as they are written
  Words doubtful_months;       // that are words of another kind, too
  Words of, oclock, half, quarter, past, until, minutes, time_prepositions, times_of_day, year_prepositions;
  Texts halves_of_day;         // "p m": "p.m.", phrases
  Texts zones;                 // phrases
  Texts eras;                  // phrases

  // Money, measures, ranges.
  std::unordered_map<std::string, Currency> currencies;  // phrases
  Words cents;
  Texts units;                 // phrases, and what is put behind the number
  Words counted;               // words behind a number that say that it is no year and no time
  Words range, between;

  // Strings of digits and letters.
  Words number_cues;           // after them digits are one string
  Texts initials;              // known ones, without spaces: "phd": "PhD"
  Words pronoun, pronoun_verbs;  // "i", and what is said behind or before it
  Words determiners;           // before initials, other than the article that the first of them may be
  Texts phrases;               // what is always written so
  Texts titles;                // before a name, and how they are written

  // Names behind titles: no roles in numbers.
  Words titles_of_names;       // as they are shown, in small letters and without a full stop
  Words no_names;              // words behind a title that begin no name
  Words name_particles;        // "de": names that are written in small letters or not

  bool may_be_name(const std::string& word) const { return !word.empty() && !no_names.count(word); }

  // E-mail and web addresses.
  Words at, dot, top_level_domains, never_local;
  Texts address_marks;         // "dash": "-"; in names
  Words slash, colon, protocols, www;

  Words roles;                 // every word of the above
  Words phrase_beginnings;     // what phrases of the above begin with, of whole words

  void collect_roles();  // fills in the last two
};

const NumberTables& english_numbers();

}  // namespace asr_stream
