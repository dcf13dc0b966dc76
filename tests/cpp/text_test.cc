// Text for people: what a user sees for the words that were said.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "text/formatter.h"
#include "text/letter_case.h"
#include "text/punctuation.h"
#include "utf8.h"

namespace asr_stream {
namespace {

using Texts = std::vector<std::string>;

// Words of 0.3 s each, 0.1 s apart; "..." stands for a second without words.
std::vector<Word> said(const std::string& text, double start_s = 0.0) {
  std::vector<Word> words;
  for (const std::string& word : split_words(text)) {
    if (word == "...") {
      start_s += 1.0;
      continue;
    }
    words.push_back({word, start_s, start_s + 0.3, 0.9f});
    start_s += 0.4;
  }
  return words;
}

std::string final_of(TextFormatter& formatter, const std::string& text, double start_s = 0.0, bool is_cut = false) {
  formatter.final(said(text, start_s), is_cut);
  return join(formatter.shown().words);
}

std::string final_of(const Options& options, const std::string& text, const char* language = "en") {
  TextFormatter formatter(text_options(options, language));
  return final_of(formatter, text);
}

using Table = std::vector<std::pair<const char*, const char*>>;

void expect_shown(const Table& table, const Options& options = {}, const char* language = "en") {
  for (const auto& [text, shown] : table) EXPECT_EQ(final_of(options, text, language), shown) << text;
}

// The tables of tests/text: what is said, a tab, what is shown; only one of them if nothing changes.
std::vector<std::pair<std::string, std::string>> table(const std::string& name) {
  std::ifstream file(std::string(ASR_STREAM_TESTS) + "/text/" + name);
  EXPECT_TRUE(file) << name;
  std::vector<std::pair<std::string, std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t tab = line.find('\t');
    rows.emplace_back(line.substr(0, tab), line.substr(tab == std::string::npos ? 0 : tab + 1));
  }
  return rows;
}

void expect_numbers(const std::string& name, const char* code, std::size_t num_rows) {
  const auto rows = table(name);
  EXPECT_GE(rows.size(), num_rows) << name;
  for (const auto& [text, shown] : rows) {
    const std::vector<std::string> words = split_words(text);
    std::string joined;
    std::size_t next = 0;
    for (const ShownToken& token : language(code)->numbers(words, 0, words.size(), nullptr)) {
      EXPECT_EQ(token.first, next) << text;  // every word is shown once
      next = token.last + 1;
      joined += (joined.empty() ? "" : " ") + token.text;
    }
    EXPECT_EQ(next, words.size()) << text;
    EXPECT_EQ(joined, shown) << text;
  }
}

TEST(Numbers, AreThoseOfTheEnglishTables) {
  expect_numbers("english_numbers.tsv", "en", 200);
  expect_numbers("english_numbers_published.tsv", "en", 300);
  expect_numbers("english_unchanged.tsv", "en", 50);
}

TEST(Numbers, AreThoseOfTheGermanTable) { expect_numbers("german_numbers.tsv", "de", 80); }

TEST(Numbers, StandAmongWordsInTheRightCase) {
  expect_shown({{"AND I PAID TWENTY FIVE DOLLARS", "and I paid $25"},
                {"I'M HERE ON MARCH TEN AT FIVE P M", "I'm here on March 10 at 5 p.m."},
                {"MISTER SMITH", "Mr. smith"}});
  expect_shown({{"ICH ZAHLE FÜNF EURO FÜNFZIG UM NEUN UHR", "ich zahle 5,50 € um 9 Uhr"}}, {}, "de");
}

TEST(EnglishText, SpellingIsAmericanBritishOrAsRecognized) {
  Options options;
  options.spelling = kAmerican;
  expect_shown({{"THE COLOUR OF THE CENTRE", "the color of the center"},
                {"AN ORGANISED AUTHOUR", "an organized author"}},
               options);
  options.spelling = kBritish;
  expect_shown({{"THE COLOR OF THE CENTER", "the colour of the centre"},
                {"AN AUTHOR'S HONORARY TERROR", "an author's honorary terror"},
                {"A KILOGRAM OF HONOR", "a kilogram of honour"}},
               options);
  options.spelling = kMixed;
  expect_shown({{"THE COLOUR OF THE CENTER", "the colour of the center"}}, options);
}

TEST(Text, PlainTextHasOnlyLowerCaseAndTheWordI) {
  Options options;
  options.text = kPlain;
  expect_shown({{"AND I HAVE TWENTY FIVE DOLLARS", "and I have twenty five dollars"}}, options);
  EXPECT_EQ(text_options(options, "xx"), nullptr);  // of a language without rules: as recognized
}

Options dictation() {
  Options options;
  options.commands = true;
  return options;
}

TEST(Commands, MarksAreAttachedAndBeginSentences) {
  expect_shown({{"HELLO COMMA MY FRIEND PERIOD HOW ARE YOU QUESTION MARK", "Hello, my friend. How are you?"},
                {"ONE LINE NEW LINE THE NEXT NEW PARAGRAPH LAST", "One line\nThe next\n\nLast"},
                {"WELL KNOWN HYPHEN MAN", "Well known-man"},
                {"COFFEE DASH TEA", "Coffee – tea"},
                {"SHE SAID OPEN QUOTE NO CLOSE QUOTE", "She said \"no\""},
                {"SAIL CAP PACIFIC ALL CAPS NASA", "Sail Pacific NASA"},
                {"OPEN PARENTHESIS SEE BELOW CLOSE PARENTHESIS", "(See below)"}},
               dictation());
}

TEST(Commands, AWordLastsUntilTheMarkAfterItAndIsNoMoreCertain) {
  TextFormatter formatter(text_options(dictation(), "en"));
  std::vector<Word> words = said("HELLO COMMA WELL HYPHEN KNOWN");
  words[1].confidence = 0.4f;
  formatter.final(words, false);
  const std::vector<Word> shown = formatter.shown().words;
  ASSERT_EQ(join(shown), "Hello, well-known");
  EXPECT_EQ(shown[0].end_s, words[1].end_s);
  EXPECT_EQ(shown[0].confidence, 0.4f);
  EXPECT_EQ(shown[1].start_s, words[2].start_s);
  EXPECT_EQ(shown[1].end_s, words[4].end_s);
  EXPECT_EQ(shown[1].confidence, 0.9f);
}

TEST(Commands, OrdinaryWordsStay) {
  expect_shown({{"THE PERIOD OF THE WAR", "The period of the war"},
                {"A LONG PERIOD", "A long period"},
                {"THE COMMA", "The comma"},
                {"THAT WAS A HARD ONE ... PERIOD", "That was a hard one."}},
               dictation());
}

TEST(Commands, ScratchThatTakesBackTheUtteranceOrTheOneBefore) {
  TextFormatter formatter(text_options(dictation(), "en"));
  EXPECT_EQ(final_of(formatter, "FIRST TRY"), "First try");
  formatter.final(said("WRONG ... SCRATCH THAT ... RIGHT", 3.0), false);
  ShownText shown = formatter.shown();
  EXPECT_EQ(join(shown.words), "right");
  EXPECT_EQ(shown.num_taken_back, 0u);
  formatter.final(said("SCRATCH THAT", 9.0), false);
  shown = formatter.shown();
  EXPECT_TRUE(shown.words.empty());
  EXPECT_EQ(shown.num_taken_back, 1u);
  formatter.final(said("ONE ... SCRATCH THAT ... UNDO THAT", 12.0), false);
  EXPECT_EQ(formatter.shown().num_taken_back, 1u);
  EXPECT_EQ(final_of(formatter, "HE DID SCRATCH THAT ITCH", 20.0), "He did scratch that itch") << "all is taken back";
}

TEST(Commands, APartialDoesNotTakeBackBeforeThePause) {
  TextFormatter formatter(text_options(dictation(), "en"));
  formatter.partial(said("WRONG ... SCRATCH THAT"), 3);
  EXPECT_EQ(join(formatter.shown().words), "Wrong scratch that");
  formatter.partial(said("WRONG ... SCRATCH THAT ... RIGHT"), 3);
  EXPECT_EQ(join(formatter.shown().words), "Right");
}

TEST(Commands, YourOwnListAddsChangesAndRemoves) {
  Options options;
  options.own_commands = "next item -> \\n- \ncomma ->\nstop -> full stop\nat sign -> @";
  expect_shown({{"EGGS NEXT ITEM MILK", "Eggs\n- milk"},
                {"A COMMA B STOP C", "A comma b. C"},
                {"ME AT SIGN HOME", "Me @home"}},
               options);
  EXPECT_THROW(Commands(nullptr, ""), std::invalid_argument);
  EXPECT_EQ(final_of(options, "EINS STOP", ""), "EINS full stop");  // without a table the text is literal
}

TEST(Replacements, PhrasesAreWrittenAsTheUserWants) {
  Options options;
  options.replace = "my address -> 12 Main Street\nnew york -> NYC\nnew york city -> the city\njim -> James";
  expect_shown({{"MY ADDRESS IS HERE", "12 Main Street is here"},
                {"NEW YORK AND NEW YORK CITY", "NYC and the city"},
                {"NEW YORKERS", "new yorkers"},
                {"JIM'S HOUSE", "James's house"}},
               options);
  options.commands = true;
  expect_shown({{"NEW YORK COMMA JIM PERIOD", "NYC, James."}}, options);
}

TEST(Replacements, AReplacedPhraseHasTheTimesOfItsWordsAndTheLeastConfidence) {
  Options options;
  options.replace = "two words -> one";
  TextFormatter formatter(text_options(options, "en"));
  std::vector<Word> words = said("BEFORE TWO WORDS AFTER");
  words[2].confidence = 0.4f;
  formatter.final(words, false);
  const std::vector<Word> shown = formatter.shown().words;
  ASSERT_EQ(join(shown), "before one after");
  EXPECT_EQ(shown[1].start_s, words[1].start_s);
  EXPECT_EQ(shown[1].end_s, words[2].end_s);
  EXPECT_EQ(shown[1].confidence, 0.4f);
  EXPECT_EQ(shown[2].start_s, words[3].start_s);
}

TEST(Numbers, ANumberHasTheTimesOfItsWordsAndTheLeastConfidence) {
  TextFormatter formatter(text_options(Options(), "en"));
  std::vector<Word> words = said("ABOUT TWENTY FIVE DOLLARS");
  words[2].confidence = 0.3f;
  formatter.final(words, false);
  const std::vector<Word> shown = formatter.shown().words;
  ASSERT_EQ(join(shown), "about $25");
  EXPECT_EQ(shown[1].start_s, words[1].start_s);
  EXPECT_EQ(shown[1].end_s, words[3].end_s);
  EXPECT_EQ(shown[1].confidence, 0.3f);
}

TEST(Mask, LettersBecomeStars) {
  Options options;
  options.mask = "darn\nholy cow\ncôté";
  expect_shown({{"DARN IT", "**** it"},
                {"DARNING", "darning"},
                {"A HOLY COW", "a **** ***"},
                {"HOLY WATER", "holy water"},
                {"CÔTÉ", "****"}},
               options);
}

// The number of stable words of a partial whose words are all stable as recognized.
std::size_t num_stable(const Options& options, const std::string& text) {
  TextFormatter formatter(text_options(options, "en"));
  const std::vector<Word> words = said(text);
  formatter.partial(words, words.size());
  return formatter.shown().num_stable;
}

TEST(Partials, AWordIsStableOnceNoRuleCanChangeIt) {
  EXPECT_EQ(num_stable({}, "HELLO THERE"), 1u);       // "there dot com"
  EXPECT_EQ(num_stable({}, "WE HAVE TWENTY"), 2u);    // "twenty five"
  EXPECT_EQ(num_stable({}, "WE HAVE TWENTY FIVE MEN AND MORE"), 5u);
  Options options;
  options.text = kPlain;
  EXPECT_EQ(num_stable(options, "HELLO THERE"), 2u);
  options.mask = "there you are";
  EXPECT_EQ(num_stable(options, "HELLO AND SEE THERE"), 2u);  // a phrase of three words may begin
  options.mask.reset();
  options.replace = "there you are -> voila";
  EXPECT_EQ(num_stable(options, "HELLO THERE"), 1u);
  EXPECT_EQ(num_stable(options, "HELLO THERE YOU"), 1u);
  EXPECT_EQ(num_stable(options, "HELLO THERE YOU GO"), 4u);
}

TEST(Partials, StableWordsStayWhileTheTextGrows) {
  for (const bool with_commands : {false, true}) {
    Options options;
    options.commands = with_commands;
    options.replace = "new york -> NYC";
    options.mask = "holy cow";
    const Texts all = split_words("WE PAID TWENTY FIVE DOLLARS IN NEW YORK COMMA HOLY COW AT NINE THIRTY P M PERIOD");
    TextFormatter formatter(text_options(options, "en"));
    std::vector<Word> before;
    std::string text;
    for (const std::string& word : all) {
      text += " " + word;
      const std::vector<Word> words = said(text);
      formatter.partial(words, words.size());
      const ShownText shown = formatter.shown();
      ASSERT_GE(shown.num_stable, before.size()) << text;
      for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(shown.words[i].text, before[i].text) << text;
      before.assign(shown.words.begin(), shown.words.begin() + static_cast<std::ptrdiff_t>(shown.num_stable));
    }
    formatter.final(said(text), false);
    const ShownText shown = formatter.shown();
    EXPECT_EQ(shown.num_stable, 0u);
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(shown.words[i].text, before[i].text);
    EXPECT_EQ(join(shown.words), with_commands ? "We paid $25 in NYC, **** *** at 9:30 p.m."
                                               : "we paid $25 in NYC comma **** *** at 9:30 p.m. period");
  }
}

// A network with this mark after a word and this case of it; else no mark and lower case.
struct Marked {
  std::string word;
  Mark mark;
  Case shown_case = Case::kLower;
  float certainty = 0.95f;
};

struct Probs {
  std::vector<float> marks, cases;
};

Probs probs_of(const PunctuationRun& run, const std::vector<Marked>& marked) {
  Probs probs;
  for (const std::string& word : run.words) {
    Marked found{word, Mark::kNone};
    for (const Marked& each : marked) {
      if (each.word == word) found = each;
    }
    std::vector<float> marks(kNumMarks, (1 - found.certainty) / (kNumMarks - 1));
    std::vector<float> cases(kNumCases, (1 - found.certainty) / (kNumCases - 1));
    marks[static_cast<std::size_t>(found.mark)] = cases[static_cast<std::size_t>(found.shown_case)] = found.certainty;
    probs.marks.insert(probs.marks.end(), marks.begin(), marks.end());
    probs.cases.insert(probs.cases.end(), cases.begin(), cases.end());
  }
  return probs;
}

std::shared_ptr<PunctuationMetadata> network() {
  auto metadata = std::make_shared<PunctuationMetadata>();
  metadata->look_ahead = 2;
  metadata->left_context = 4;
  metadata->mixed = {{"mcdonald", "McDonald"}};
  return metadata;
}

std::string punctuated(TextFormatter& formatter, const std::string& text, const std::vector<Marked>& marked,
                       bool is_cut = false, double start_s = 0.0) {
  const PunctuationRun* run = formatter.final(said(text, start_s), is_cut);
  if (!run) return "no run";
  const Probs probs = probs_of(*run, marked);
  return join(formatter.shown(probs.marks, probs.cases).words);
}

TEST(Punctuation, MarksAndCapitalsComeFromTheNetwork) {
  TextFormatter formatter(text_options({}, "en", network()));
  EXPECT_EQ(punctuated(formatter, "WELL THE ANSWER IS YES DOES PARIS KNOW MCDONALD",
                       {{"well", Mark::kComma},
                        {"yes", Mark::kPeriod},
                        {"paris", Mark::kNone, Case::kCapitalized},
                        {"mcdonald", Mark::kQuestion, Case::kCapitalized}}),
            "Well, the answer is yes. Does Paris know McDonald?");
  EXPECT_EQ(punctuated(formatter, "IT IS OVER", {}, false, 10.0), "It is over.");  // three words end in a mark
  EXPECT_EQ(punctuated(formatter, "NO WAY", {}, false, 20.0), "No way");
  EXPECT_EQ(punctuated(formatter, "AT FIVE P M WE LEFT", {{"p.m.", Mark::kPeriod}}, false, 30.0), "At 5 p.m. We left.");
  EXPECT_EQ(punctuated(formatter, "DOCTOR SMITH AND THE DOCTOR CAME", {{"doctor", Mark::kNone, Case::kCapitalized}},
                       false, 40.0),
            "Doctor Smith and the doctor came.");
}

TEST(Punctuation, ASentenceGoesOnAfterACut) {
  TextFormatter formatter(text_options({}, "en", network()));
  EXPECT_EQ(punctuated(formatter, "THIS GOES ON", {}, true), "This goes on");  // until 1.1 s
  EXPECT_EQ(formatter.final(said("AND ON", 1.3), false)->beginning, SpecialUnit::kContinues);
  formatter.shown();
  EXPECT_EQ(punctuated(formatter, "NOT HERE", {}, true, 2.2), "Not here");
  EXPECT_EQ(formatter.final(said("AND ON", 20.0), false)->beginning, SpecialUnit::kSentence);  // after a pause
  formatter.shown();
  EXPECT_EQ(punctuated(formatter, "NOT HERE", {}, true, 22.0), "Not here");
  EXPECT_EQ(punctuated(formatter, "AND NOT HERE", {}, false, 23.0), "and not here.");
  EXPECT_EQ(punctuated(formatter, "NOT HERE", {}, true, 24.5), "Not here");
  formatter.reset();
  EXPECT_EQ(formatter.final(said("AND ON", 25.4), false)->beginning, SpecialUnit::kSentence);
}

TEST(Punctuation, TheNetworkGetsWordsAndPauses) {
  TextFormatter formatter(text_options({}, "en", network()));
  const PunctuationRun* run = formatter.final(said("WE PAID TEN DOLLARS ... THEN LEFT"), false);
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run->words, (Texts{"we", "paid", "$10", "then", "left"}));
  ASSERT_EQ(run->pauses_s.size(), 5u);
  EXPECT_TRUE(std::isnan(run->pauses_s[0]));
  EXPECT_NEAR(run->pauses_s[1], 0.1, 1e-9);
  EXPECT_NEAR(run->pauses_s[2], 0.1, 1e-9);
  EXPECT_NEAR(run->pauses_s[3], 1.1, 1e-9);
  EXPECT_TRUE(run->complete);
  EXPECT_THROW(formatter.shown({1.0f}, {1.0f}), std::invalid_argument);
}

TEST(Punctuation, WordsOfAPartialAreStableWhenTheNetworkHasSeenEnough) {
  const auto stable = [](float certainty) {
    TextFormatter formatter(text_options({}, "en", network()));
    const std::vector<Word> words = said("ONE CAT SAW US ALL ON TUESDAY");
    const PunctuationRun* run = formatter.partial(words, words.size());
    std::vector<Marked> marked;
    for (const std::string& word : run->words) marked.push_back({word, Mark::kNone, Case::kLower, certainty});
    const Probs probs = probs_of(*run, marked);
    return formatter.shown(probs.marks, probs.cases).num_stable;
  };
  EXPECT_EQ(stable(0.5f), 4u);  // six are settled, and the last two lack their look-ahead
  EXPECT_EQ(stable(0.99f), 6u);
}

TEST(Punctuation, SpokenMarksComeBeforeThoseOfTheNetwork) {
  TextFormatter formatter(text_options(dictation(), "en", network()));
  EXPECT_EQ(punctuated(formatter, "STOP COMMA GO NEW LINE AND SO ON PERIOD",
                       {{"stop", Mark::kPeriod}, {"go", Mark::kPeriod}, {"on", Mark::kQuestion}}),
            "Stop, go.\nAnd so on.");
}

TEST(Punctuation, UnitsOfTheNetwork) {
  const double unknown = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(pause_class(unknown), 0);
  EXPECT_EQ(pause_class(0.0), 1);
  EXPECT_EQ(pause_class(0.04), 2);
  EXPECT_EQ(pause_class(0.1 + 0.2 - 0.26), 2);  // 0.04, within rounding
  EXPECT_EQ(pause_class(0.81), 6);
  EXPECT_EQ(pause_class(9.0), 7);
  EXPECT_THROW(pause_class(-0.1), std::invalid_argument);
  EXPECT_EQ(word_features("Mr."), word_features("mr"));
  EXPECT_EQ(word_features("b12"), word_features("B47"));
  EXPECT_NE(word_features("b12"), word_features("b1"));

  const PunctuationUnits whole = punctuation_units({"a", "b"}, {0.5, 0.1}, SpecialUnit::kContinues, true);
  EXPECT_EQ(whole.first_word, 1u);
  EXPECT_EQ(whole.num_words, 2u);
  EXPECT_EQ(whole.pauses, (std::vector<std::int64_t>{0, 0, 3, 0}));
  ASSERT_EQ(whole.features.size(), 4 * kNumWordFeatures);
  const auto row = [](const PunctuationUnits& units, std::size_t unit) {
    WordFeatures features;
    for (std::size_t i = 0; i < features.size(); ++i) {
      features[i] = static_cast<std::int32_t>(units.features[unit * kNumWordFeatures + i]);
    }
    return features;
  };
  EXPECT_EQ(row(whole, 0), special_features(SpecialUnit::kContinues));
  EXPECT_EQ(row(whole, 1), word_features("a"));
  EXPECT_EQ(row(whole, 3), special_features(SpecialUnit::kEnd));
  const PunctuationUnits middle = punctuation_units({"a", "b"}, {0.5, 0.1}, SpecialUnit::kNone, false);
  EXPECT_EQ(middle.first_word, 0u);
  EXPECT_EQ(middle.pauses, (std::vector<std::int64_t>{5, 3}));
  EXPECT_THROW(punctuation_units({"a"}, {0.5, 0.1}, SpecialUnit::kNone, false), std::invalid_argument);
}

TEST(LetterCase, OfLatinGreekAndCyrillic) {
  EXPECT_EQ(to_lower("Ä Ω Ж Ё × Z1"), "ä ω ж ё × z1");
  EXPECT_EQ(to_upper("ä ω ж ё ÷ z1"), "Ä Ω Ж Ё ÷ Z1");
  EXPECT_EQ(to_lower("中A"), "中a");
  EXPECT_EQ(capitalized("äz"), "Äz");
  EXPECT_EQ(capitalized(""), "");
}

TEST(Language, IsFoundByItsCode) {
  EXPECT_EQ(language("en-GB"), language("en"));
  EXPECT_NE(language("de"), language("en"));
  EXPECT_EQ(language("eng"), nullptr);
  EXPECT_EQ(language(""), nullptr);
  for (const char* code : {"", "en", "deu", "de-CH", "zh-Hant-TW"}) EXPECT_TRUE(is_language(code)) << code;
  for (const char* code : {"e", "EN", "engl", "en-", "en-abcdefghi", "en_US"}) EXPECT_FALSE(is_language(code)) << code;
}

}  // namespace
}  // namespace asr_stream
