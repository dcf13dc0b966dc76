// Text for people: lists with odd lines, and what is left without the network.
#include "text/formatter.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "utf8.h"

namespace asr_stream {
namespace {

std::vector<Word> spoken(const std::string& text) {
  std::vector<Word> words;
  for (const std::string& word : split_words(text)) {
    const auto start_s = static_cast<double>(words.size());
    words.push_back({word, start_s, start_s + 0.5, 0.9f});
  }
  return words;
}

TEST(TextOptions, OddLinesAreSkippedAndNamed) {
  Options given;
  given.replace = "ann -> Anne\nno arrow\nann -> Ana\nben ->\nbob -> Rob";
  given.own_commands = "dot -> .\nnothing\nDot -> ,\n-> x";
  const auto options = text_options(given, "en");
  const std::vector<std::string> expected{"command line 'nothing' has no arrow",
                                          "command line 'Dot -> ,' gives 'dot' a second meaning",
                                          "command line '-> x' has 0 words before the arrow",
                                          "replacement line 'no arrow' has no arrow",
                                          "replacement line 'ann -> Ana' gives 'ann' a second text",
                                          "replacement line 'ben ->' has nothing after the arrow"};
  ASSERT_EQ(options->warnings.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(options->warnings[i].rfind(expected[i], 0), 0u) << i;
  TextFormatter formatter(options);
  formatter.final(spoken("ANN MET BOB DOT"), false);
  EXPECT_EQ(join(formatter.shown().words), "Anne met Rob.");
}

TEST(TextOptions, LinesWithControlCharactersAreSkippedAndNamed) {
  Options given;
  const std::string end(1, '\0');
  given.mask = "ben" + end + "bob\nann";
  given.replace = "bob -> R" + end + "b";
  given.own_commands = "dot\x1b -> .";
  const auto options = text_options(given, "en");
  const std::string fault = " has a control character; remove it";
  EXPECT_EQ(options->warnings,
            (std::vector<std::string>{"command line 'dot? -> .'" + fault, "mask line 'ben?bob'" + fault,
                                      "replacement line 'bob -> R?b'" + fault}));
  TextFormatter formatter(options);
  formatter.final(spoken("ANN MET BOB BEN"), false);
  EXPECT_EQ(join(formatter.shown().words), "*** met bob ben");
}

TEST(TextOptions, AListOfOddLinesAloneIsNamedEvenWithoutALanguage) {
  Options given;
  given.replace = "no arrow";
  const auto options = text_options(given, "");
  ASSERT_NE(options, nullptr);
  EXPECT_EQ(options->warnings.size(), 1u);
  TextFormatter formatter(options);
  formatter.final(spoken("ANN MET BOB"), false);
  EXPECT_EQ(join(formatter.shown().words), "ANN MET BOB");
}

// The words are still masked, replaced and counted.
TEST(TextFormatter, WithoutTheNetworkOnlyCaseAndMarksAreMissing) {
  Options given;
  given.mask = "secret";
  given.replace = "ann -> Anne";
  TextFormatter formatter(text_options(given, "en", std::make_shared<PunctuationMetadata>()));
  ASSERT_NE(formatter.final(spoken("ANN HAS TWENTY FIVE SECRET NUMBERS"), false), nullptr);
  EXPECT_EQ(join(formatter.shown().words), "Anne has 25 ****** numbers");
}

// Probabilities of 1 for these marks, and for lower case.
ShownText marked(TextFormatter& formatter, const std::vector<Mark>& marks) {
  std::vector<float> mark_probs(marks.size() * kNumMarks, 0.0f), case_probs(marks.size() * kNumCases, 0.0f);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    mark_probs[i * kNumMarks + static_cast<std::size_t>(marks[i])] = 1.0f;
    case_probs[i * kNumCases] = 1.0f;
  }
  return formatter.shown(mark_probs, case_probs);
}

TEST(TextFormatter, MarksOfPartialsAreHeldUntilTheNetworkHasSeenItsLookAhead) {
  auto network = std::make_shared<PunctuationMetadata>();
  network->look_ahead = 2;
  network->left_context = 8;
  TextFormatter formatter(text_options(Options(), "en", network));
  const std::vector<Word> words = spoken("CATS SLEPT DOGS RAN HORSES ATE");
  const auto first = [&words](std::size_t count) { return std::vector<Word>(words.begin(), words.begin() + count); };
  const Mark none = Mark::kNone, comma = Mark::kComma, stop = Mark::kPeriod;
  formatter.partial(first(3), 0);
  EXPECT_EQ(join(marked(formatter, {none, comma, none}).words), "Cats slept, dogs");
  formatter.partial(first(3), 1);  // no new word
  EXPECT_EQ(join(marked(formatter, {comma, stop, none}).words), "Cats slept, dogs");
  formatter.partial(first(4), 2);  // a new word, but nothing is settled two words ahead
  EXPECT_EQ(join(marked(formatter, {comma, stop, comma, none}).words), "Cats slept, dogs, ran");
  formatter.partial(first(5), 5);
  EXPECT_EQ(join(marked(formatter, {none, stop, comma, none, none}).words), "Cats slept. Dogs, ran horses");
  formatter.final(words, false);
  EXPECT_EQ(join(marked(formatter, {comma, none, none, none, none, stop}).words), "Cats, slept dogs ran horses ate.");
}

}  // namespace
}  // namespace asr_stream
