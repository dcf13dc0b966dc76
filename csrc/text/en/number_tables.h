// The English words for numbers; the rules know no others. Words are in lower case. Words of a phrase are separated by
// single spaces.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "text/language.h"

namespace asr_stream {

struct Currency {
  std::string symbol;  // before the amount
  bool is_clear;       // if false, another meaning is more likely unless cents or a magnitude follow
  bool is_singular = false;  // "a hundred dollar bill": the article does not belong to the number
  bool has_cents = true;     // if false, "twelve fifty yen" means 1,250
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
  Words zeros;                 // "zero" is also used for numbers, the others only among digits
  Words minus;

  // Times and dates.
  Texts month_names;           // as they are written
  Words doubtful_months;       // months that are also other words
  Words oclock, minutes, time_prepositions, times_of_day, year_prepositions;
  Words clock_prepositions;    // before "ten to nine": not "from", which begins a range
  Words day_prepositions;      // "on the fourteenth"
  Words parts_of_days;         // "the evening of the fourteenth"
  Words opening_hours;         // "fridays nine to five"
  Words subjects;              // before "may" and "march" as verbs
  Texts halves_of_day;         // "p m": "p.m.", phrases
  Texts parts_of_day;          // "in the morning": phrases that say that a time is meant
  Texts zones;                 // phrases
  Texts eras;                  // phrases

  // Money, measures, ranges.
  std::unordered_map<std::string, Currency> currencies;  // phrases
  Words cents;
  Words of_money;              // verbs before an amount of money
  Words buyers;                // "it cost me"
  Words totals;                // "the total is"
  Words sold_by;               // of small prices: "three ninety nine a pound"
  Words rates;                 // of any prices: "two fifty a night"
  Texts units;                 // phrases, and the text to put after the number
  Words people;                // "in nineteen eighty four people left"
  Words counted;               // words after a number that show that it is neither a year nor a time
  Words singular;              // singular units and currencies: "five fifteen year olds" are five
  Words durations;             // units of time
  Words ages, old;             // "five year olds"
  Words range, feet, pounds, ounces;
  Texts out_of;                // phrases
  Values denominators;         // "eighths": 8
  Words divided;               // units measured in fractions: cups, inches

  // Strings of digits and letters.
  Words number_cues;           // digits after these are one string
  Words string_cues;           // "the last digits", near a string
  Words copulas;               // "the pin is"
  Words it_is;                 // "it's", before a number that may be a time, a price or neither
  Words books, doubtful_books;  // of the Bible, the latter also other words: "john three sixteen"
  Words wins;                  // before the score of a match
  Words divisions;             // of a text, numbered: "chapter three ten pages"
  Words ordered;               // nouns that are numbered with ordinals: "floor", "century"
  Words brief;                 // nouns that last seconds: "a thirty second timer"
  Words monarchs;              // names before ordinals: "louis the fourteenth"
  Words with_letter;           // "apartment three b"
  Texts initials;              // known ones, without spaces: "phd": "PhD"
  Words pronoun_verbs;         // after or before "i"
  Words determiners;           // before initials, other than an article that may be their first letter
  Texts phrases;               // phrases that are always written this way
  Texts titles;                // before a name, and how they are written

  // E-mail and web addresses.
  Words streets, mailboxes;
  Words top_level_domains, never_local;
  Texts address_marks;         // "dash": "-"; in names
  Words protocols;

  // Words that can begin or continue a number: those of the tables above, and those that the rules name.
  Words roles = {"hundred", "hundredth", "hundreds", "a", "and", "point", "plus", "of", "half", "quarter", "past", "to",
                 "between", "at", "dot", "slash", "colon", "www"};
  Words phrase_beginnings;     // prefixes of the phrases above, in whole words

  void collect_roles();  // fills in the last two from the tables
};

// See Language::numbers. A small grammar over the tables: at each word, the rule that covers the most words wins; ties
// go to the earlier rule. Ambiguous words stay: "one" alone, numbers below ten without a unit, and "a hundred".
std::vector<ShownToken> format_english_numbers(const std::vector<std::string>& words, std::size_t first,
                                               std::size_t num_stable, std::size_t* num_settled);

const NumberTables& english_numbers();
const NameWords& english_names();

}  // namespace asr_stream
