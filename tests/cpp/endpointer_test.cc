#include "search/endpointer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "search/pauses.h"

namespace asr_stream {
namespace {

TEST(Endpointer, RulesFireAtTheirFrame) {
  const Endpointer endpointer(EndpointerOptions{});
  EXPECT_EQ(endpointer.update(100, 16, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(100, 17, true), EndpointRule::kSilenceAfterSpeech);
  EXPECT_EQ(endpointer.update(124, 124, false), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(125, 125, false), EndpointRule::kSilenceWithoutSpeech);
}

TEST(Endpointer, ASpeakerWhoPausesIsGivenHalfAsLongAgain) {
  const Endpointer endpointer(EndpointerOptions{});
  EndpointCues cues;
  for (const auto& [longest, silence] : {std::pair(11, 17), {12, 18}, {20, 30}, {33, 49}, {34, 50}, {60, 50}}) {
    cues.longest_pause_frames = longest;
    EXPECT_EQ(endpointer.silence_frames(cues), silence);
  }
}

TEST(Pauses, GapCountsWhereTheSentenceGoesOn) {
  struct Case {
    std::optional<double> end_log_odds;
    double end_log_prob;
    std::int64_t longest;
  };
  for (const Case& each : {Case{2.0, -9.0, 0}, Case{-2.0, -1.0, 40}, Case{std::nullopt, -1.0, 0},
                           Case{std::nullopt, -9.0, 40}}) {
    Hypothesis hypothesis;
    hypothesis.tokens = {1};
    hypothesis.start_frames = {0};
    hypothesis.end_frames = {10};
    EndpointCues cues;
    cues.end_log_odds = each.end_log_odds;
    cues.end_log_prob = each.end_log_prob;
    Pauses pauses;
    pauses.end(hypothesis, cues);
    hypothesis.start_frames = {50};
    hypothesis.end_frames = {52};
    EXPECT_EQ(pauses.longest(hypothesis), each.longest);
  }
}

TEST(Endpointer, LongUtteranceWaitsForAPause) {
  EndpointerOptions options;
  options.silence_after_speech_s = std::numeric_limits<double>::infinity();
  const Endpointer endpointer(options);
  EXPECT_EQ(endpointer.update(499, 13, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(500, 12, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(500, 13, true), EndpointRule::kMaxUtterance);
  EXPECT_EQ(endpointer.update(562, 6, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(563, 5, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(563, 6, true), EndpointRule::kMaxUtterance);
  EXPECT_EQ(endpointer.update(624, 0, true, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(625, 0, true, true), EndpointRule::kMaxUtterance);
  EXPECT_EQ(endpointer.update(749, 0, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(750, 0, true), EndpointRule::kMaxUtterance);
}

TEST(Endpointer, InfinitySwitchesARuleOff) {
  EndpointerOptions options;
  options.silence_without_speech_s = std::numeric_limits<double>::infinity();
  options.max_utterance_s = std::numeric_limits<double>::infinity();
  const Endpointer endpointer(options);
  EXPECT_EQ(endpointer.update(1000000000, 1000000000, false), EndpointRule::kNone);
}

TEST(Endpointer, BadValuesAreRefused) {
  const auto make = [](double a, double b, double c, double d) { Endpointer(EndpointerOptions{a, 0.5, b, c, d}); };
  EXPECT_THROW(Endpointer(EndpointerOptions{0.8, 0, 5, 20, 0.04}), std::invalid_argument);
  EXPECT_THROW(make(0, 5, 20, 0.04), std::invalid_argument);
  EXPECT_THROW(make(0.8, -1, 20, 0.04), std::invalid_argument);
  EXPECT_THROW(make(0.8, 5, std::nan(""), 0.04), std::invalid_argument);
  EXPECT_THROW(make(0.8, 5, 20, std::numeric_limits<double>::infinity()), std::invalid_argument);
  const Endpointer endpointer(EndpointerOptions{});
  EXPECT_THROW(endpointer.update(-1, 0, true), std::invalid_argument);
  EXPECT_THROW(endpointer.update(5, 6, true), std::invalid_argument);
  EXPECT_THROW(endpointer.update(5, -1, true), std::invalid_argument);
}

}  // namespace
}  // namespace asr_stream
