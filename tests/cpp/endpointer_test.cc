#include "search/endpointer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>

#include "endpoint_detector.h"

namespace asr_stream {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Endpointer, RulesFireAtTheirFrame) {
  const Endpointer endpointer(EndpointerOptions{});
  EXPECT_EQ(endpointer.update(100, 16, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(100, 17, true), EndpointRule::kSilenceAfterSpeech);
  EXPECT_EQ(endpointer.update(124, 124, false), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(125, 125, false), EndpointRule::kSilenceWithoutSpeech);
}

TEST(Endpointer, CuesSetTheSilenceBetweenItsBounds) {
  constexpr double kUsual = EndpointCues::kUsualEndLogProb;
  constexpr std::int64_t kMany = EndpointCues::kManyWords;
  struct Case {
    EndpointCues cues;
    std::int64_t frames;
  };
  const Endpointer endpointer(EndpointerOptions{});
  for (const Case& each : {
           Case{{-1.0}, 13},  // 0.5 s at least
           Case{{-5.0}, 25}, Case{{-kInfinity}, 29}, Case{{-kInfinity, 1}, 41},
           Case{{kUsual, 1}, 29}, Case{{kUsual, 100}, 17},
           // A speaker who pauses is given half as long again, 2 s at most.
           Case{{kUsual, kMany, 11}, 17}, Case{{kUsual, kMany, 12}, 18}, Case{{kUsual, kMany, 16}, 24},
           Case{{kUsual, kMany, 33}, 49}, Case{{kUsual, kMany, 34}, 50},
           Case{{kUsual, kMany, std::int64_t{1} << 40}, 50},
           Case{{kUsual, kMany, 0, 2.0}, 18}, Case{{-1.5, kMany, 0, kInfinity}, 17}, Case{{kUsual, kMany, 0, -4.0}, 45},
           Case{{kUsual, kMany, 0, 0.0}, 27}, Case{{-5.0, kMany, 0, 0.0}, 28}, Case{{kUsual, 1, 0, 3.0}, 25},
           Case{{kUsual, kMany, 20, 3.0}, 28}}) {
    EXPECT_EQ(endpointer.silence_frames(each.cues), each.frames);
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
  options.silence_after_speech_s = kInfinity;
  const Endpointer endpointer(options);
  EXPECT_EQ(endpointer.update(499, 13, true, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(500, 12, true, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(500, 13, true), EndpointRule::kMaxUtterance);
  EXPECT_EQ(endpointer.update(562, 6, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(563, 5, true, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(563, 6, true), EndpointRule::kMaxUtterance);
  EXPECT_EQ(endpointer.update(624, 0, true, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(625, 0, true, true), EndpointRule::kMaxUtterance);
  EXPECT_EQ(endpointer.update(749, 5, true), EndpointRule::kNone);
  EXPECT_EQ(endpointer.update(750, 0, true), EndpointRule::kMaxUtterance);
}

TEST(Endpointer, InfinitySwitchesARuleOff) {
  EndpointerOptions options;
  options.silence_without_speech_s = kInfinity;
  options.max_utterance_s = kInfinity;
  const Endpointer endpointer(options);
  EXPECT_EQ(endpointer.update(1000000000, 1000000000, false), EndpointRule::kNone);
  options.silence_after_speech_s = kInfinity;
  EXPECT_EQ(Endpointer(options).update(1000000000000, 100000000000, true), EndpointRule::kNone);
}

}  // namespace
}  // namespace asr_stream
