// Compares hotwords and closed phrases with their definitions, by brute force.
#include "search/hotwords.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "search/ctc_phrase_search.h"
#include "search/ctc_prefix_beam_search.h"
#include "search/lm_fusion.h"
#include "search/phrases.h"
#include "search/words.h"

namespace asr_stream {
namespace {

const std::vector<std::string> kLetters{"", "<unk>", "\xE2\x96\x81", "A", "B", "C", "'"};
const std::vector<std::string> kPieces{"", "\xE2\x96\x81" "A", "\xE2\x96\x81" "AB", "B", "C", "\xE2\x96\x81" "C", "BC",
                                       "\xE2\x96\x81" "B"};

std::string message(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// The score that hotwords add to `text`, found by looking for every hotword at every word boundary.
float gain(const std::string& text, const std::map<std::string, float>& boosts) {
  const std::string spaced = " " + text + " ";
  float sum = 0.0f;
  for (const auto& [word, boost] : boosts) {
    const auto num_spaces = static_cast<std::size_t>(std::count(word.begin(), word.end(), ' '));
    const auto letters = static_cast<float>(word.size() - num_spaces);
    for (std::size_t at = 0; (at = spaced.find(" " + word + " ", at)) != std::string::npos; ++at) {
      sum += boost * letters;
    }
  }
  return sum;
}

std::vector<float> random_log_probs(std::mt19937& random, std::size_t num_frames, std::size_t vocab_size) {
  std::vector<float> log_probs;
  for (std::size_t t = 0; t < num_frames; ++t) {
    std::vector<float> row(vocab_size);
    float sum = 0.0f;
    for (float& p : row) sum += p = std::pow(static_cast<float>(1 + random() % 100), 3.0f);
    for (const float p : row) log_probs.push_back(std::log(p / sum));
  }
  return log_probs;
}

TEST(Hotwords, EachHotwordRaisesTheScore) {
  const std::map<std::string, float> boosts{{"A", 1.0f},     {"AB", 0.5f}, {"AB C", 2.0f},
                                            {"B C A", 1.5f}, {"C", 0.25f}, {"C A B", 3.0f}};
  std::string list;
  for (const auto& [word, boost] : boosts) list += word + ":" + std::to_string(boost) + "\n";
  for (const auto& tokens : {kLetters, kPieces}) {
    const auto hotwords = std::make_shared<const Hotwords>(list, tokens);
    const LmFusion fusion(nullptr, tokens, {}, hotwords);
    LookAhead::Cache cache;
    std::mt19937 random(1);
    for (int i = 0; i < 3000; ++i) {
      LmFusion::Path path = fusion.begin();
      std::string text;
      for (std::size_t k = random() % 12; k > 0; --k) {
        const auto token = static_cast<std::int32_t>(random() % tokens.size());
        path = fusion.advance(path, token, cache);
        text += tokens[static_cast<std::size_t>(token)];
        EXPECT_GE(path.hotword_score(), 0.0f);
      }
      std::string spelled;  // words with one space between them
      for (std::size_t at; (at = text.find("\xE2\x96\x81")) != std::string::npos;) text.replace(at, 3, " ");
      for (const char byte : text) {
        if (byte != ' ' || (!spelled.empty() && spelled.back() != ' ')) spelled += byte;
      }
      if (!spelled.empty() && spelled.back() == ' ') spelled.pop_back();
      std::vector<LmFusion::Ending> endings;
      fusion.finish(path, endings);
      EXPECT_NEAR(endings.front().path.hotword_score(), gain(spelled, boosts), 1e-4f) << spelled;
      EXPECT_EQ(endings.front().path.lm_score(), 0.0f);
    }
  }
}

TEST(Hotwords, TakesBackTheGainOfAnIncompleteHotword) {
  const auto hotwords = std::make_shared<const Hotwords>("abba\nAC AC:2", kLetters, 1.0f);
  const LmFusion fusion(nullptr, kLetters, {}, hotwords);
  LookAhead::Cache cache;
  const auto score = [&](const std::vector<std::int32_t>& tokens) {
    LmFusion::Path path = fusion.begin();
    for (const std::int32_t token : tokens) path = fusion.advance(path, token, cache);
    return path.score();
  };
  EXPECT_FLOAT_EQ(score({3}), 2.0f);              // A, which may become ABBA or AC
  EXPECT_FLOAT_EQ(score({3, 4}), 2.0f);           // AB
  EXPECT_FLOAT_EQ(score({3, 4, 4, 3}), 4.0f);     // ABBA
  EXPECT_FLOAT_EQ(score({3, 4, 4, 3, 3}), 0.0f);  // ABBAA
  EXPECT_FLOAT_EQ(score({3, 4, 4, 3, 2}), 4.0f);  // ABBA, which cannot change
  EXPECT_FLOAT_EQ(score({4, 3, 4}), 0.0f);        // BAB: a hotword does not begin within a word
  EXPECT_FLOAT_EQ(score({3, 5, 2}), 4.0f);        // AC, and AC may follow
  EXPECT_FLOAT_EQ(score({3, 5, 2, 3, 5, 2, 3, 5}), 8.0f + 8.0f);  // AC AC, and again from its second word
  EXPECT_FLOAT_EQ(score({3, 5, 2, 4}), 0.0f);
}

TEST(Hotwords, AWordThatTheModelNeverPrefersIsFoundAndGivenBackInTime) {
  // "A" is more likely than "B" in every frame, with blanks between the frames.
  std::vector<float> log_probs;
  for (int t = 0; t < 8; ++t) {
    const float spoken[] = {0.01f, 0.001f, 0.001f, 0.7f, 0.27f, 0.017f, 0.001f};
    const float blank[] = {0.99f, 0.001f, 0.001f, 0.002f, 0.002f, 0.002f, 0.002f};
    for (const float p : t % 2 ? blank : spoken) log_probs.push_back(std::log(p));
  }
  const auto found = [&](const char* list) {
    const auto hotwords = std::make_shared<const Hotwords>(list, kLetters, 1.2f);
    const auto fusion = std::make_shared<const LmFusion>(nullptr, kLetters, LmFusionOptions{}, hotwords);
    CtcPrefixBeamSearch search({16, 0, 10.0, true}, fusion);
    search.advance(log_probs.data(), 8, 7);
    const Hypothesis best = search.hypotheses(1, true)[0];
    return join(words(best, kLetters, Calibration().confidence_without_lm));
  };
  EXPECT_EQ(found("C"), "AAAA");
  EXPECT_EQ(found("ABAB"), "ABAB");
  EXPECT_EQ(found("BBBB"), "BBBB");
  EXPECT_EQ(found("ABABC"), "AAAA");
}

TEST(Hotwords, NamesTheLinesThatItSkips) {
  const auto warnings = [](const std::string& list) { return Hotwords(list, kLetters).warnings(); };
  const auto warning = [&](const std::string& line) {
    for (const std::string& list : {"AB\n" + line, line + "\nAB", line}) {
      const std::vector<std::string> found = warnings(list);
      EXPECT_EQ(found.size(), 1u) << list;
      EXPECT_NE(found.at(0).find('\'' + line + '\''), std::string::npos) << found.at(0);
      EXPECT_EQ(Hotwords(list, kLetters).num_hotwords(), list == line ? 0u : 1u) << list;
    }
    return warnings(line).at(0);
  };
  EXPECT_NE(warning("BAD-9").find("'BAD-9' cannot be written by this model: it has no 'D', '-', '9'"),
            std::string::npos);
  for (const char* line : {"AB:x", "AB:5x", "AB:0", "AB\tnan", "A: B", "BC:-1", "A:inf"}) {
    EXPECT_NE(warning(line).find("(0, 20]"), std::string::npos) << line;
  }
  EXPECT_NE(warning(":2").find("has an empty place"), std::string::npos);
  EXPECT_NE(warning("= A").find("has an empty place"), std::string::npos);
  EXPECT_TRUE(warnings("\xEF\xBB\xBF" "ab\r\na\xE2\x80\x99" "b : 1.5\nAb\t2").empty());
  EXPECT_NE(message([&] { warnings("\n \n"); }).find("no words"), std::string::npos);
  EXPECT_EQ(Hotwords("AB\nab:3\nAB:2", kLetters).highest_boost(), 3.0f);
  EXPECT_EQ(Hotwords("AB\nab:3\nAB:2", kLetters).num_hotwords(), 1u);
  EXPECT_NE(message([] { Hotwords("A", kLetters, 21.0f); }).find("hotword_boost is 21"), std::string::npos);
}

TEST(Hotwords, AListWithoutAUsableLineHasNoEffect) {
  const auto hotwords = std::make_shared<const Hotwords>("BAD-9", kLetters);
  const LmFusion fusion(nullptr, kLetters, {}, hotwords);
  LookAhead::Cache cache;
  LmFusion::Path path = fusion.begin();
  for (const std::int32_t token : {3, 4, 2, 5, 2}) path = fusion.advance(path, token, cache);
  EXPECT_EQ(path.score(), 0.0f);
}

TEST(Hotwords, AListHasLimitsAndSpellings) {
  std::string line = "AB = A";
  while (std::count(line.begin(), line.end(), 'A') < 17) line += ", A";
  EXPECT_EQ(read_hotword(line, 1.0f).aliases.size(), 16u);
  EXPECT_NE(message([&] { read_hotword(line + ", A", 1.0f); }).find("has 17 aliases"), std::string::npos);
  for (const char* special : {"Anna", "GPT-4", "\xC3\x89tude"}) {
    EXPECT_TRUE(read_hotword(special, 1.0f).has_own_spelling()) << special;
  }
  for (const char* plain : {"anna's", "\xC3\xA9tude"}) {
    EXPECT_FALSE(read_hotword(plain, 1.0f).has_own_spelling()) << plain;
  }
}

// The best text of whole phrases by brute force over all alignments: its score and its words.
struct Brute {
  double score = -1e9;
  std::string text;
};

Brute best_of_all(const std::vector<float>& log_probs, std::size_t num_frames, const std::vector<std::string>& tokens,
                  const std::vector<std::string>& phrases) {
  const std::size_t v = tokens.size();
  Brute best;
  std::size_t total = 1;
  for (std::size_t t = 0; t < num_frames; ++t) total *= v;
  for (std::size_t code = 0; code < total; ++code) {
    double score = 0.0;
    std::string text;
    std::size_t rest = code, last = 0;
    for (std::size_t t = 0; t < num_frames; ++t, rest /= v) {
      const std::size_t token = rest % v;
      score += static_cast<double>(log_probs[t * v + token]);
      if (token != last) text += tokens[token];
      last = token;
    }
    if (score <= best.score || text.find("<") != std::string::npos) continue;
    for (std::size_t at; (at = text.find("\xE2\x96\x81")) != std::string::npos;) text.replace(at, 3, " ");
    if (text.find("  ") != std::string::npos) continue;  // no two word boundaries in a row
    std::string left = (text.empty() || text[0] == ' ') ? text : " " + text;
    if (!left.empty() && left.back() == ' ') left.pop_back();
    const std::string whole = left;
    std::vector<bool> reached(left.size() + 1, false);
    reached[0] = true;
    for (std::size_t at = 0; at < left.size(); ++at) {
      for (const std::string& phrase : phrases) {
        const std::size_t size = phrase.size() + 1;
        if (reached[at] && left.compare(at, size, " " + phrase) == 0) reached[at + size] = true;
      }
    }
    if (reached[left.size()]) best = {score, whole.empty() ? "" : whole.substr(1)};
  }
  return best;
}

TEST(CtcPhraseSearch, FindsTheBestOfAllAlignmentsOfWholePhrases) {
  const std::vector<std::string> letters{"", "\xE2\x96\x81", "A", "B", "C"};
  const std::vector<std::string> pieces{"", "\xE2\x96\x81" "A", "\xE2\x96\x81" "AB", "B", "C"};
  const std::vector<std::string> phrases{"A", "AB", "AB A", "ABC AB"};
  std::mt19937 random(3);
  int spoken = 0;
  for (const auto& tokens : {letters, pieces}) {
    // The cost is so high that [unk] never has the best score.
    const auto list = std::make_shared<const Phrases>("A\nab\nAB  A\nABC AB\nA\n[unk]", tokens, 100.0f);
    for (int i = 0; i < 40; ++i) {
      const std::size_t num_frames = 1 + random() % 6;
      const std::vector<float> log_probs = random_log_probs(random, num_frames, tokens.size());
      const Brute expected = best_of_all(log_probs, num_frames, tokens, phrases);
      CtcPhraseSearch search(list);
      const auto vocab_size = static_cast<std::int64_t>(tokens.size());
      for (std::size_t t = 0; t < num_frames; ++t) {
        search.advance(log_probs.data() + t * tokens.size(), 1, vocab_size);
      }
      const Hypothesis found = search.hypotheses(1, true)[0];
      EXPECT_NEAR(found.log_prob, expected.score, 1e-4);
      EXPECT_EQ(join(words(found, list->tokens(), Calibration().confidence_without_lm)), expected.text);
      spoken += !found.tokens.empty();
      for (std::size_t k = 0; k + 1 < found.tokens.size(); ++k) {
        EXPECT_LE(found.end_frames[k], found.start_frames[k + 1]);
      }
    }
  }
  EXPECT_GT(spoken, 20);
}

std::vector<float> spell(const std::string& text, const std::vector<std::string>& tokens, float certain = 0.99f) {
  std::vector<float> log_probs;
  const auto row = [&](std::size_t token) {
    for (std::size_t v = 0; v < tokens.size(); ++v) {
      log_probs.push_back(std::log(v == token ? certain : (1.0f - certain) / static_cast<float>(tokens.size() - 1)));
    }
  };
  for (const char byte : text) {
    const std::string letter = byte == ' ' ? "\xE2\x96\x81" : std::string(1, byte);
    row(static_cast<std::size_t>(std::find(tokens.begin(), tokens.end(), letter) - tokens.begin()));
    row(0);
  }
  return log_probs;
}

std::string recognize(const std::shared_ptr<const Phrases>& list, const std::string& text, bool finished = true) {
  CtcPhraseSearch search(list);
  const std::vector<float> log_probs = spell(text, kLetters);
  search.advance(log_probs.data(), static_cast<std::int64_t>(log_probs.size() / kLetters.size()), 7);
  return join(words(search.hypotheses(1, finished)[0], list->tokens(), Calibration().confidence_without_lm));
}

TEST(CtcPhraseSearch, OtherSpeechIsUnknown) {
  const auto list = std::make_shared<const Phrases>("AB\nCAB A\nB A B", kLetters);
  EXPECT_EQ(recognize(list, "AB"), "AB");
  EXPECT_EQ(recognize(list, "CAB A AB"), "CAB A AB");
  EXPECT_EQ(recognize(list, "B A B AB"), "B A B AB");  // letters that are spelled out
  EXPECT_EQ(recognize(list, "CCCC"), "[unk]");
  EXPECT_EQ(recognize(list, "CBC BBB CCB"), "[unk]");  // one [unk] for any number of words
  EXPECT_EQ(recognize(list, "AB CCC AB"), "AB [unk] AB");
  EXPECT_EQ(recognize(list, "ABCCC"), "[unk]");  // no phrase within a word
  EXPECT_EQ(recognize(list, "CAB"), "[unk]");    // half a phrase
  EXPECT_EQ(recognize(list, "CAB", false), "CAB");
  EXPECT_EQ(recognize(list, "CAB A AB CAB", false), "CAB A AB CAB");
  EXPECT_EQ(recognize(list, "AB ", false), "AB");
  EXPECT_EQ(recognize(list, "C", false), "");  // nothing for an incomplete word
  EXPECT_EQ(recognize(list, ""), "");
}

// A token of several frames counts once, and blanks do not count.
TEST(CtcPhraseSearch, EachUnknownTokenCosts) {
  const std::vector<std::string> tokens{"", "\xE2\x96\x81", "A", "B", "C"};
  const auto list = std::make_shared<const Phrases>("A", tokens, 2.0f);
  std::vector<float> log_probs;
  for (const std::size_t token : {3, 3, 3, 0, 0, 4, 4, 3}) {
    for (std::size_t v = 0; v < tokens.size(); ++v) log_probs.push_back(v == token ? -0.001f : -30.0f);
  }
  CtcPhraseSearch search(list);
  search.advance(log_probs.data(), 8, 5);
  const Hypothesis found = search.hypotheses(1, true).at(0);
  EXPECT_EQ(join(words(found, list->tokens(), Calibration().confidence_without_lm)), "[unk]");
  EXPECT_NEAR(found.log_prob, 8 * -0.001 - 3 * 2.0, 1e-4);
}

// Also within a phrase, where [unk] and silence are far less likely than what was said.
TEST(CtcPhraseSearch, AlwaysKeepsAFinalState) {
  const std::vector<std::string> tokens{"", "\xE2\x96\x81", "A", "B", "C"};
  CtcPhraseSearch search(std::make_shared<const Phrases>("ABC", tokens, 100.0f));
  for (const std::size_t token : {2, 2, 3, 3}) {
    std::vector<float> row(tokens.size(), -60.0f);
    row[token] = 0.0f;
    search.advance(row.data(), 1, static_cast<std::int64_t>(row.size()));
    EXPECT_EQ(search.hypotheses(1, true).size(), 1u);
  }
}

TEST(CtcPhraseSearch, ForgetsAndLeaksNothing) {
  const auto list = std::make_shared<const Phrases>("AB\nCAB A\nB A B\nA", kLetters);
  std::mt19937 random(5);
  CtcPhraseSearch search(list);
  for (int i = 0; i < 20; ++i) {
    const std::vector<float> log_probs = random_log_probs(random, 50, 7);
    search.advance(log_probs.data(), 50, 7);
    EXPECT_GT(search.hypotheses(4).size(), 1u);
    search.reset();
    EXPECT_EQ(search.num_histories(), 0u);
    EXPECT_EQ(search.num_trailing_blanks(), 0);
    EXPECT_TRUE(search.hypotheses(1, true)[0].tokens.empty());
    EXPECT_EQ(search.num_frames(), 50 * (i + 1));
  }
  const std::vector<float> speech = spell("AB", kLetters);
  search.advance(speech.data(), 4, 7);  // a letter and a blank each
  search.advance(speech.data() + 21, 1, 7);
  EXPECT_EQ(search.num_trailing_blanks(), 2);
}

// [unk] can begin after a phrase in a frame whose most likely token is blank.
TEST(CtcPhraseSearch, UnknownSpeechAfterAPhraseHasAConfidence) {
  CtcPhraseSearch search(std::make_shared<const Phrases>("ABCABC", kLetters));
  const auto frame = [&](const std::string& likely, const std::string& other) {
    std::vector<float> row(kLetters.size(), -9.0f);
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (kLetters[i] == likely) row[i] = -0.1f;
      if (kLetters[i] == other) row[i] = -2.8f;
    }
    search.advance(row.data(), 1, static_cast<std::int64_t>(row.size()));
  };
  for (const char letter : std::string("ABCABC")) frame(std::string(1, letter), "");
  for (int i = 0; i < 3; ++i) frame(kLetters[0], "\xe2\x96\x81");
  bool found = false;
  for (const Hypothesis& hypothesis : search.hypotheses(6, true)) {
    for (const float confidence : hypothesis.confidences) {
      found = found || hypothesis.tokens.size() > 6;  // the phrase and [unk]
      EXPECT_TRUE(confidence > 0.0f && confidence <= 1.0f) << confidence;
    }
  }
  EXPECT_TRUE(found);
}

TEST(Phrases, NamesTheFaultOfAList) {
  const auto refusal = [](const char* list, float cost = kUnknownCost) {
    return message([&] { Phrases(list, kLetters, cost); });
  };
  EXPECT_NE(refusal("").find("no phrase"), std::string::npos);
  EXPECT_NE(refusal("[unk]\n").find("no phrase"), std::string::npos);
  const Phrases others("A B\nZ", kLetters);
  ASSERT_EQ(others.warnings().size(), 1u);
  const std::string fault = "phrase line 'Z': phrase 'Z' cannot be written by this model: it has no 'Z';";
  EXPECT_EQ(others.warnings()[0].rfind(fault, 0), 0u) << others.warnings()[0];
  EXPECT_NE(refusal("Z\n9").find("no line of the list of phrases can be used: " + fault), std::string::npos);
  EXPECT_NE(refusal("A", 0.0f).find("unknown_cost"), std::string::npos);
  CtcPhraseSearch search(std::make_shared<const Phrases>("A", kLetters));
  const std::vector<float> row(5, std::log(0.2f));
  EXPECT_NE(message([&] { search.advance(row.data(), 1, 5); }).find("5, but the phrases were given 7"),
            std::string::npos);
}

}  // namespace
}  // namespace asr_stream
