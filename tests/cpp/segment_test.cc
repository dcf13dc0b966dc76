#include "segment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "network.h"
#include "small_lm.h"
#include "text/formatter.h"

namespace asr_stream {
namespace {

constexpr std::int64_t kDim = kNetworkDim;

std::shared_ptr<SegmentOptions> options(std::int32_t search = kRescore) {
  return network_options(search);
}

std::vector<float> audio(std::size_t count) { return utterances(count); }

void run(Segment& segment, std::vector<Event>& events, std::int64_t* num_scored = nullptr) {
  while (const auto work = segment.work()) {
    if (is_scoring(*work)) {
      EXPECT_EQ(static_cast<std::int64_t>(floats(*work, 2).size()), work->inputs[2].shape[1] * kDim);
      if (num_scored) ++*num_scored;
    }
    run_network(segment, *work);
  }
  for (Event& event : segment.take_events()) events.push_back(std::move(event));
}

std::vector<Event> recognize(const std::shared_ptr<const SegmentOptions>& how, const std::vector<float>& samples,
                             std::size_t push, std::int64_t* num_scored = nullptr) {
  Segment segment(how);
  std::vector<Event> events;
  for (std::size_t begin = 0; begin < samples.size();) {
    begin += segment.accept(samples.data() + begin, std::min(push, samples.size() - begin));
    run(segment, events, num_scored);
  }
  segment.finish();
  run(segment, events, num_scored);
  EXPECT_TRUE(segment.finished());
  return events;
}

std::vector<std::string> finals(const std::vector<Event>& events) {
  std::vector<std::string> texts;
  for (const Event& event : events) {
    if (event.type == Event::Type::kFinal) texts.push_back(event.text);
  }
  return texts;
}

TEST(Segment, FindsEveryUtteranceHoweverItIsCut) {
  const std::vector<float> samples = audio(3 * 56000 + 30000);
  for (const bool second_pass : {true, false}) {
    for (const auto search :
         {kGreedy, kRescore, kJoint}) {
      const auto how = options(search);
      how->options.second_pass = second_pass;
      how->second_pass_window = 20;  // several in an utterance
      std::int64_t num_scored = 0;
      const std::vector<Event> whole = recognize(how, samples, samples.size(), &num_scored);
      EXPECT_EQ(finals(whole), std::vector<std::string>(4, "AB"));
      EXPECT_EQ(num_scored, search == kRescore ? 4 : 0);
      for (const std::size_t push : {1, 159, 10000}) {
        if (push == 1 && !second_pass) continue;  // takes seconds under sanitizers
        const std::vector<Event> events = recognize(how, samples, push);
        ASSERT_EQ(events.size(), whole.size());
        for (std::size_t i = 0; i < events.size(); ++i) {
          EXPECT_EQ(events[i].text, whole[i].text);
          EXPECT_EQ(events[i].start_s, whole[i].start_s);
          EXPECT_EQ(events[i].end_s, whole[i].end_s);
        }
      }
    }
  }
}

TEST(Segment, JointSearchAsksForStepsOfTheDecoder) {
  const auto how = options(kJoint);
  how->options.max_alternatives = 2;
  for (const bool second_pass : {true, false}) {
    how->options.second_pass = second_pass;
    Segment segment(how);
    const std::vector<float> samples = audio(2 * 56000);
    std::vector<Event> events;
    std::size_t num_first = 0, num_before = 0;  // steps that begin an utterance; hypotheses of the last step
    const auto answer_all = [&] {
      while (const auto work = segment.work()) {
        if (is_decoder_step(*work)) {
          const std::vector<std::int64_t>& tokens = integers(*work, 3);
          const StateUse& use = *work->state;
          EXPECT_EQ(use.begins, tokens == std::vector<std::int64_t>{kSosEosId});
          EXPECT_EQ(floats(*work, 2).empty(), !use.begins);
          EXPECT_EQ(static_cast<std::int64_t>(floats(*work, 2).size()), work->inputs[2].shape[1] * kDim);
          EXPECT_EQ(use.slot, kDecoderSlot);
          EXPECT_EQ(use.keep, StateUse::Keep::kForNextWork);
          ASSERT_EQ(use.parents.size(), tokens.size());
          for (const std::int64_t parent : use.parents) {
            EXPECT_LT(parent, static_cast<std::int64_t>(use.begins ? 1 : num_before));
          }
          num_first += use.begins;
          num_before = tokens.size();
          EXPECT_THROW(segment.answer({}), std::invalid_argument);
        }
        run_network(segment, *work);
      }
      for (Event& event : segment.take_events()) events.push_back(std::move(event));
    };
    for (std::size_t begin = 0; begin < samples.size(); answer_all()) {
      begin += segment.accept(samples.data() + begin, samples.size() - begin);
    }
    segment.finish();
    answer_all();
    EXPECT_EQ(finals(events), std::vector<std::string>(2, "AB"));
    EXPECT_EQ(num_first, 2u);
    EXPECT_GT(events.back().start_s, 3.4);  // the frames of the second utterance
    EXPECT_LT(events.back().end_s, 5.2);
    EXPECT_EQ(events.back().alternatives.size(), 2u);
  }
}

TEST(Segment, TheDecoderGetsNothingOfTheSilenceBefore) {
  const auto how = options();
  how->options.second_pass = false;
  std::vector<float> samples(16000 * 6, 0.0f);  // so long that it is an utterance without words
  const std::vector<float> speech = audio(30000);
  samples.insert(samples.end(), speech.begin(), speech.end());
  Segment segment(how);
  std::vector<std::int64_t> lengths;  // frames that the decoder gets
  for (std::size_t begin = 0; !segment.finished();) {
    if (begin == samples.size()) segment.finish();
    else begin += segment.accept(samples.data() + begin, samples.size() - begin);
    while (const auto work = segment.work()) {
      if (is_scoring(*work)) lengths.push_back(work->inputs[2].shape[1]);
      run_network(segment, *work);
    }
  }
  EXPECT_EQ(finals(segment.take_events()), std::vector<std::string>{"AB"});
  ASSERT_EQ(lengths.size(), 1u);
  EXPECT_NEAR(static_cast<double>(lengths[0]), (6 + 30000 / 16000.0 + 0.3 - 5) / 0.04, 3.0);  // with the silence behind
}

TEST(Segment, EndpointsLoseNoFrame) {
  const auto num_frames = [](double silence_s, std::size_t count) {
    const auto how = options(kGreedy);
    how->options.second_pass = false;
    how->endpointer.silence_without_speech_s = silence_s;
    Segment segment(how);
    std::vector<Event> events;
    const std::vector<float> zeros(count, 0.0f);
    for (std::size_t begin = 0; begin < count; run(segment, events)) {
      begin += segment.accept(zeros.data() + begin, count - begin);
    }
    segment.finish();
    run(segment, events);
    EXPECT_TRUE(segment.finished());
    return segment.num_frames();
  };
  const double chunk_s = 0.64;  // so an utterance ends where a chunk does
  for (std::size_t count = 9700; count < 24000; count += 160) {  // the end brings two rows of features at once
    EXPECT_EQ(num_frames(chunk_s, count), num_frames(100.0, count)) << count;
  }
}

TEST(Segment, ShowsAnObsceneWordOnlyWhenItIsStable) {
  const auto partials = [](const char* word, const char* language) {
    const auto how = options(kGreedy);
    how->tokens[4] = word;
    how->options.second_pass = false;
    Options plain;
    plain.text = kPlain;
    how->text = text_options(plain, language);
    std::vector<std::string> texts;
    for (const Event& event : recognize(how, audio(56000), 56000)) {
      if (event.type == Event::Type::kPartial) texts.push_back(event.text);
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(partials("A", "en"), (Texts{"A", "AB"}));
  EXPECT_EQ(partials("TIT", "en"), (Texts{"TITB"}));  // it was the beginning of another word
  EXPECT_EQ(partials("TIT", "de"), (Texts{"TIT", "TITB"}));
}

// As the last word of a partial it is usually the beginning of another word, but not at the end.
TEST(Segment, ARareLastWordIsShownOnceTheUtteranceHasEnded) {
  const auto texts = [](bool is_rare) {
    const auto bytes = small_file(kPronounced, is_rare);
    const auto how = options(kBeam);
    how->phones = {"P"};
    LmFusionOptions weights;
    weights.prior_weight = 0.0f;
    how->fusion = std::make_shared<const LmFusion>(std::make_shared<const NgramLm>(bytes.data(), bytes.size()),
                                                   how->tokens, weights, nullptr, how->phones);
    Segment segment(how);
    const std::vector<float> samples(16000, 0.1f), encoder_out(16 * kDim, 0.5f);
    std::vector<std::vector<std::string>> found(1);  // by chunk
    for (std::size_t begin = 0;;) {
      if (!segment.work()) {
        if (begin == samples.size()) segment.finish();
        else begin += segment.accept(samples.data() + begin, samples.size() - begin);
        continue;
      }
      const auto work = segment.work();
      if (!is_first_pass(*work)) break;
      const std::int64_t count = num_frames(*work);
      std::vector<float> letters(static_cast<std::size_t>(count * kNetworkTokens), -5.0f),
          phones(static_cast<std::size_t>(count * 3), -40.0f);
      for (std::size_t frame = 0; frame < static_cast<std::size_t>(count); ++frame) {
        phones[3 * frame + (work->state->begins && frame == 2 ? 1 : 0)] = -0.01f;
        letters[kNetworkTokens * frame] = -0.01f;
      }
      segment.answer({{letters.data(), {1, count, kNetworkTokens}},
                      {encoder_out.data(), {1, count, kDim}},
                      {phones.data(), {1, count, 3}}});
      for (const Event& event : segment.take_events()) found.back().push_back(event.text);
      found.emplace_back();
    }
    return found;
  };
  using Texts = std::vector<std::vector<std::string>>;
  EXPECT_EQ(texts(false), (Texts{{"A"}, {}, {}}));
  EXPECT_EQ(texts(true), (Texts{{}, {"A"}, {}}));
}

TEST(Segment, FinalsSayWhatEndedThem) {
  const auto endings = [](const auto& how, const std::vector<float>& samples) {
    std::vector<std::string> found;
    for (const Event& event : recognize(how, samples, 1000)) {
      EXPECT_EQ(event.endpoint != nullptr, event.type == Event::Type::kFinal);
      if (event.endpoint) found.push_back(event.endpoint);
    }
    return found;
  };
  const auto how = options();
  EXPECT_EQ(endings(how, audio(56000 + 20000)), (std::vector<std::string>{"silence_after_speech", "end_of_audio"}));
  how->endpointer.max_utterance_s = 1.0;
  EXPECT_EQ(endings(how, audio(20000)), (std::vector<std::string>{"end_of_audio"}));
  how->endpointer.max_utterance_s = 0.5;
  EXPECT_EQ(endings(how, audio(20000)), (std::vector<std::string>{"max_utterance", "end_of_audio"}));
  how->endpointer.silence_after_speech_s = std::numeric_limits<double>::infinity();
  how->endpointer.max_utterance_s = 1.9;  // 0.4 s after the words: cut after 0.1 s more, in a pause between sentences
  EXPECT_EQ(endings(how, audio(48000)), std::vector<std::string>{"silence_after_speech"});
}

// Words of `length` frames each, without blanks in between: token 3, which begins a word and lasts `num_first` frames,
// followed by letters.
std::vector<Event> fluent(const std::shared_ptr<const SegmentOptions>& how, std::int64_t length, std::size_t seconds,
                          std::int64_t num_first = 1) {
  Segment segment(how);
  std::vector<Event> events;
  const std::vector<float> samples(seconds * 16000, 0.1f);
  std::int64_t frame = 0;
  for (std::size_t begin = 0; begin < samples.size();) {
    begin += segment.accept(samples.data() + begin, samples.size() - begin);
    while (const auto work = segment.work()) {
      std::vector<float> log_probs(static_cast<std::size_t>(num_frames(*work) * 6), -9.0f);
      for (std::int64_t i = 0; i < num_frames(*work); ++i, ++frame) {
        log_probs[static_cast<std::size_t>(6 * i + (frame % length < num_first ? 3 : frame % 2 ? 4 : 5))] = -0.01f;
      }
      answer(segment, *work, log_probs);
    }
    for (Event& event : segment.take_events()) events.push_back(std::move(event));
  }
  return events;
}

TEST(Segment, ALongUtteranceIsCutBetweenWordsWhateverTheChunk) {
  constexpr std::int64_t kLength = 11;  // frames of a word
  const auto how = options(kGreedy);
  how->options.second_pass = false;
  how->endpointer.max_utterance_s = 1.0;
  for (const std::int64_t chunk_size : {1, 4, 16}) {
    how->chunk_size = chunk_size;
    int num_finals = 0;
    for (const Event& event : fluent(how, kLength, 20)) {
      if (event.type != Event::Type::kFinal) continue;
      ++num_finals;
      EXPECT_STREQ(event.endpoint, "max_utterance");
      for (const Word& word : event.words) EXPECT_EQ(word.text.size(), static_cast<std::size_t>(kLength - 1));
    }
    EXPECT_GE(num_finals, 12);
  }
}

TEST(Segment, ALongUtteranceIsNotCutWithinATokenThatBeginsAWord) {
  const auto how = options(kGreedy);
  how->tokens[3] = "\xe2\x96\x81W";
  how->options.second_pass = false;
  how->endpointer.max_utterance_s = 2.0;  // from frame 63 on before a word: 60 to 64 are the beginning of one
  int num_finals = 0;
  for (const Event& event : fluent(how, 12, 20, 5)) {
    if (event.type != Event::Type::kFinal) continue;
    ++num_finals;
    EXPECT_EQ(event.words.size(), 6u);
    for (const Word& word : event.words) EXPECT_EQ(word.text.size(), 8u) << word.text;
  }
  EXPECT_GT(num_finals, 5);
}

// The words of the partials for random log-probabilities, frame by frame, and how many are stable; a final has no
// stable words.
std::vector<std::pair<std::vector<std::string>, std::size_t>> random_partials(std::uint32_t seed) {
  const auto how = options(kBeam);
  how->chunk_size = 1;
  how->options.second_pass = false;
  how->endpointer.max_utterance_s = 1.0;
  Segment segment(how);
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-6.0f, 0.0f);
  const std::vector<float> samples(160, 0.1f);
  std::vector<std::pair<std::vector<std::string>, std::size_t>> found;
  for (int i = 0; i < 400; ++i) {
    segment.accept(samples.data(), samples.size());
    if (!segment.work()) continue;
    std::vector<float> log_probs(6);
    for (float& log_prob : log_probs) log_prob = uniform(generator);
    answer(segment, *segment.work(), log_probs);
    for (const Event& event : segment.take_events()) {
      found.emplace_back();
      if (event.type != Event::Type::kPartial) continue;
      for (const Word& word : event.words) found.back().first.push_back(word.text);
      found.back().second = event.num_stable;
    }
  }
  return found;
}

TEST(Segment, WordsStayStableAndAPartialBringsSomethingNew) {
  int num_unchanged = 0;
  for (std::uint32_t seed = 6; seed < 9; ++seed) {  // these seeds have words that become stable and later less certain
    const auto partials = random_partials(seed);
    for (std::size_t i = 1; i < partials.size(); ++i) {
      const auto& [before, stable_before] = partials[i - 1];
      const auto& [words, stable] = partials[i];
      std::size_t num_alike = 0;
      while (num_alike < std::min(before.size(), words.size()) && before[num_alike] == words[num_alike]) ++num_alike;
      EXPECT_GE(stable, std::min(stable_before, num_alike)) << seed << " " << i;
      EXPECT_TRUE(words != before || stable != stable_before) << seed << " " << i;
      num_unchanged += words == before && !words.empty();
    }
  }
  EXPECT_GT(num_unchanged, 0);  // some have become stable
}

TEST(Segment, TheLastWordOfAPartialIsNotStableAndThoseBeforeItAre) {
  const auto how = options(kGreedy);
  how->endpointer.max_utterance_s = 100;
  how->options.second_pass = false;
  std::size_t num_partials = 0;
  for (const Event& event : fluent(how, 11, 10)) {
    ++num_partials;
    EXPECT_EQ(event.num_stable, event.words.size() - 1);
  }
  EXPECT_GT(num_partials, 10u);
}

TEST(Segment, AWordIsStableOnceNoLikelyHypothesisHasItOtherwise) {
  // Two words. The first is A or B, with this difference in nats; after them come A's endlessly.
  const auto num_stable = [](float margin) {
    const auto how = options(kBeam);
    Segment segment(how);
    const std::vector<float> samples(16000, 0.1f);
    segment.accept(samples.data(), samples.size());
    std::vector<float> log_probs(16 * 6, -30.0f);
    for (std::size_t frame = 0; frame < 16; ++frame) {
      log_probs[6 * frame + (frame == 1 || frame == 5 ? 3 : frame % 2 ? 0 : 4)] = -0.01f;
    }
    log_probs[5] = -0.01f - margin;  // B in the first frame
    answer(segment, *segment.work(), log_probs);
    const std::vector<Event> events = segment.take_events();
    EXPECT_EQ(events.size(), 1u);
    EXPECT_EQ(events.at(0).words.size(), 3u);
    return events.at(0).num_stable;
  };
  EXPECT_EQ(num_stable(1.0f), 0u);
  EXPECT_EQ(num_stable(static_cast<float>(kStableMargin) - 0.1f), 0u);
  EXPECT_EQ(num_stable(static_cast<float>(kStableMargin) + 0.1f), 2u);
}

TEST(Segment, APartialIsTakenBackIfNoWordIsLeft) {
  Segment segment(options(kGreedy));
  std::vector<Event> events;
  const std::vector<float> samples = audio(56000);
  for (std::size_t begin = 0; begin < samples.size();) {
    begin += segment.accept(samples.data() + begin, samples.size() - begin);
    while (const auto work = segment.work()) {
      if (is_first_pass(*work)) {
        run_network(segment, *work);
        continue;
      }
      // The second pass hears nothing.
      std::vector<float> log_probs(static_cast<std::size_t>(num_frames(*work) * 6), -9.0f);
      for (std::size_t at = 0; at < log_probs.size(); at += 6) log_probs[at] = -0.01f;
      answer(segment, *work, log_probs);
    }
    for (Event& event : segment.take_events()) events.push_back(std::move(event));
  }
  ASSERT_GT(events.size(), 1u);
  EXPECT_NE(events.front().text, "");
  EXPECT_EQ(events.back().text, "");
  for (const Event& event : events) EXPECT_EQ(event.type, Event::Type::kPartial);
}

TEST(Segment, TimesCountFromTheStartOfTheStream) {
  const std::vector<float> samples = audio(30000);
  Segment segment(options(), 1000 * 16000);
  std::vector<Event> events;
  for (std::size_t begin = 0; begin < samples.size(); run(segment, events)) {
    begin += segment.accept(samples.data() + begin, samples.size() - begin);
  }
  segment.finish();
  run(segment, events);
  ASSERT_EQ(finals(events).size(), 1u);
  EXPECT_NEAR(events.back().start_s, 1000.0, 0.05);
  EXPECT_NEAR(events.back().end_s, 1001.5, 0.1);
}

// The last encoder frame may begin 35 ms before the end of the audio. The next segment begins there.
TEST(Segment, TheLastWordEndsWithTheAudio) {
  const auto how = options(kGreedy);
  how->tokens[4] = "\xe2\x96\x81" "A";
  how->tokens[5] = "\xe2\x96\x81" "B";
  how->options.second_pass = false;
  Segment segment(how, 100);
  const std::vector<float> samples(10 * 640 - 80, 0.1f);
  segment.accept(samples.data(), samples.size());
  segment.finish();
  for (std::size_t done = 0; const auto work = segment.work();) {
    std::vector<float> log_probs(static_cast<std::size_t>(num_frames(*work) * 6), -9.0f);
    for (std::size_t row = 0; row < log_probs.size(); row += 6, ++done) {
      // A word each, the last one in the silence after the end.
      log_probs[row + (done < 11 ? 4 + done % 2 : 0)] = -0.01f;
    }
    answer(segment, *work, log_probs);
  }
  const Event last = segment.take_events().back();
  ASSERT_EQ(last.words.size(), 11u);
  EXPECT_EQ(last.end_s, seconds(100 + 10 * 640 - 80));
  EXPECT_DOUBLE_EQ(last.words[0].start_s, seconds(100));
  for (std::size_t i = 1; i < 11; ++i) {
    EXPECT_GE(last.words[i].start_s, last.words[i - 1].end_s);
    EXPECT_GT(last.words[i].end_s, last.words[i].start_s);
  }
}

TEST(Segment, ALongUtteranceIsEncodedInWindows) {
  const auto how = options(kGreedy);
  how->second_pass_window = 10;
  how->endpointer.silence_after_speech_s = 10;
  EXPECT_EQ(finals(recognize(how, audio(50000), 50000)), std::vector<std::string>{"AB"});
}

TEST(Segment, CallsOutOfTurnAreRefused) {
  Segment segment(options());
  const std::vector<float> zeros(20000, 0.0f);
  const auto with = [&](const std::vector<float>& log_probs, std::int64_t count, std::int64_t vocab_size) {
    segment.answer({{log_probs.data(), {1, count, vocab_size}}, {zeros.data(), {1, count, kDim}}});
  };
  EXPECT_THROW(with(zeros, 16, 6), std::logic_error);
  EXPECT_THROW(segment.answer({}), std::logic_error);
  EXPECT_THROW(segment.not_answered(), std::logic_error);
  EXPECT_EQ(segment.accept(zeros.data(), zeros.size()), 66u * 160 + 280);
  ASSERT_NE(segment.work(), nullptr);
  EXPECT_THROW(segment.accept(zeros.data(), 1), std::logic_error);
  EXPECT_THROW(segment.finish(), std::logic_error);
  EXPECT_THROW(segment.not_answered(), std::logic_error);  // not without the encoder
  EXPECT_THROW(with(zeros, 15, 6), std::invalid_argument);
  EXPECT_THROW(with(zeros, 16, 7), std::invalid_argument);
  EXPECT_THROW(segment.answer({{zeros.data(), {1, 16, 6}}}), std::invalid_argument);
  EXPECT_THROW(segment.answer({{zeros.data(), {1, 16, 6}}, {zeros.data(), {1, 16, 0}}}), std::invalid_argument);
  EXPECT_THROW(segment.answer({{zeros.data(), {16, 6}}, {zeros.data(), {16, kDim}}}), std::invalid_argument);
  const std::vector<float> nans(16 * 6, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THROW(with(nans, 16, 6), std::invalid_argument);
  ASSERT_NE(segment.work(), nullptr);  // no output was used, so correct output is still accepted
  std::vector<Event> events;
  run(segment, events);
  segment.finish();
  run(segment, events);
  segment.finish();  // a second call has no effect
  EXPECT_TRUE(segment.finished());
  EXPECT_THROW(segment.accept(zeros.data(), 1), std::logic_error);
  EXPECT_TRUE(events.empty());
}

TEST(Segment, OddSamplesAreReportedOnce) {
  std::vector<float> samples = audio(60000);
  samples[100] = samples[50000] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Event> events = recognize(options(), samples, 1000);
  const auto is_error = [](const Event& e) { return e.type == Event::Type::kError; };
  EXPECT_EQ(std::count_if(events.begin(), events.end(), is_error), 1);
  EXPECT_EQ(finals(events).size(), 2u);
}

TEST(Segment, BadOptionsAreRefused) {
  EXPECT_THROW(Segment(nullptr), std::invalid_argument);
  const auto refused = [](auto change) {
    const auto how = options();
    change(*how);
    EXPECT_THROW(Segment{how}, std::invalid_argument);
  };
  refused([](SegmentOptions& o) { o.chunk_size = 0; });
  refused([](SegmentOptions& o) { o.second_pass_window = 0; });
  refused([](SegmentOptions& o) { o.options.num_rescored = 0; });
  refused([](SegmentOptions& o) { o.options.rescore_ctc_weight = std::nan(""); });
  refused([](SegmentOptions& o) { o.beam.beam_size = 0; });
}

// Runs the whole audio, with these log-probabilities of every frame: blank, <unk>, edge, "▁", "A", "B".
template <typename Rows, typename Other>
std::vector<Event> recognize_rows(const std::shared_ptr<const SegmentOptions>& how, std::size_t num_frames_wanted,
                                  Rows row_of, Other answer_other) {
  Segment segment(how);
  const std::vector<float> samples(num_frames_wanted * 640, 0.1f);
  std::vector<Event> events;
  std::int64_t frame = 0;
  for (std::size_t begin = 0; !segment.finished();) {
    if (begin == samples.size()) segment.finish();
    else begin += segment.accept(samples.data() + begin, samples.size() - begin);
    while (const auto work = segment.work()) {
      if (!is_encoder(*work)) {
        answer_other(segment, *work);
        continue;
      }
      std::vector<float> log_probs;
      for (std::int64_t i = 0; i < num_frames(*work); ++i, ++frame) {
        const std::vector<float> row = row_of(frame);
        log_probs.insert(log_probs.end(), row.begin(), row.end());
      }
      answer(segment, *work, log_probs);
    }
    for (Event& event : segment.take_events()) events.push_back(std::move(event));
  }
  return events;
}

std::vector<float> row(std::initializer_list<std::pair<std::size_t, float>> likely) {
  std::vector<float> result(kNetworkTokens, -30.0f);
  for (const auto& [token, log_prob] : likely) result[token] = log_prob;
  return result;
}

TEST(Segment, TheDecoderChoosesAmongTheFirstHypotheses) {
  const auto how = options(kRescore);
  how->options.second_pass = false;
  how->options.max_alternatives = 2;
  how->options.rescore_ctc_weight = 0.5;
  // "A" is likelier than "B" by 1.5 nats, and "AB" than neither.
  const auto rows = [](std::int64_t frame) {
    return frame == 5 ? row({{4, -0.25f}, {5, -1.75f}}) : row({{0, -0.01f}});
  };
  const auto said = [&](float for_b, std::int32_t num_rescored) {
    how->options.num_rescored = num_rescored;
    const auto events = recognize_rows(how, 60, rows, [&](Segment& segment, const Work& work) {
      ASSERT_TRUE(is_scoring(work));
      std::vector<float> scores(integers(work, 1).size(), -8.0f);
      const std::size_t longest = integers(work, 0).size() / scores.size();
      for (std::size_t i = 0; i < scores.size(); ++i) {
        if (integers(work, 1)[i] == 1 && integers(work, 0)[i * longest] == 5) scores[i] = for_b;
      }
      answer(segment, work, scores);
    });
    const Event& last = events.back();
    EXPECT_EQ(last.type, Event::Type::kFinal);
    return last.text + " " + last.alternatives.at(0).text;
  };
  EXPECT_EQ(said(-7.0f, 4), "A B");
  EXPECT_EQ(said(-6.0f, 4), "B A");
  EXPECT_EQ(said(-1.0f, 1), "A B");  // nothing is rescored
}

TEST(Segment, TheNeuralLanguageModelChoosesAndKnowsTheUtteranceBefore) {
  const auto how = options(kBeam);
  how->options.second_pass = false;
  how->neural_lm = std::make_shared<const NeuralLmMetadata>(std::map<std::string, std::string>{
      {"model_type", kNeuralLmType},
      {"format_version", std::to_string(kNeuralLmVersion)},
      {"pieces", "<blk>\n<unk>\n<sos/eos>\n\xe2\x96\x81\nA\nB"},
      {"share", "0.5"},
      {"weight", "1"}});
  how->calibration.neural_lm_weights = {1.0, 0.0};
  std::int64_t second = 85;  // frame of the second utterance
  const auto rows = [&](std::int64_t frame) {
    return frame == 5 || frame == second ? row({{4, -0.25f}, {5, -1.75f}}) : row({{0, -0.01f}});
  };
  std::vector<std::size_t> lengths;  // of the longest path from the root
  const auto finals_with = [&](float of_b, bool answers) {
    lengths.clear();
    return finals(recognize_rows(how, 300, rows, [&](Segment& segment, const Work& work) {
      ASSERT_EQ(work.network, Network::kNeuralLm);
      const std::vector<std::int64_t>& depths = integers(work, 2);
      const std::vector<std::int64_t>& pieces = integers(work, 0);
      std::vector<float> log_probs(pieces.size(), -3.0f);
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        if (pieces[i] == 5) log_probs[i] = of_b;
      }
      // Without context a word begins below the root, otherwise below the end of the utterance before.
      lengths.push_back(0);
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const bool is_letter = pieces[i] == 4 || pieces[i] == 5;
        if (is_letter) lengths.back() = std::max(lengths.back(), static_cast<std::size_t>(depths[i]));
      }
      if (answers) answer(segment, work, log_probs);
      else segment.not_answered();
    }));
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(finals_with(-2.0f, true), (Texts{"A", "A"}));
  EXPECT_EQ(lengths, (std::vector<std::size_t>{2, 5}));  // "▁" and a letter; after "▁", "A" and an edge
  EXPECT_EQ(finals_with(-1.0f, true), (Texts{"B", "B"}));
  EXPECT_EQ(finals_with(-1.0f, false), (Texts{"A", "A"}));
  second = 245;  // after so much silence, nothing is known before
  EXPECT_EQ(finals_with(-2.0f, true), (Texts{"A", "A"}));
  EXPECT_EQ(lengths, (std::vector<std::size_t>{2, 2}));
}

TEST(Segment, AnUtteranceContinuesTheSentenceOfTheOneBefore) {
  const auto bytes = small_file();
  const auto how = options(kBeam);
  how->options.second_pass = false;
  how->fusion = std::make_shared<const LmFusion>(std::make_shared<const NgramLm>(bytes.data(), bytes.size()),
                                                 how->tokens, LmFusionOptions{1.0f, 0.0f, 0.0f, 0.0f});
  // "AB" or "B", which is likelier by 1 nat. A sentence begins with AB rather than B by 0.5 nats; after A by 1.75.
  const auto rows = [](std::int64_t frame) {
    if (frame == 5) return row({{4, -0.01f}});
    if (frame == 85 || frame == 205) return row({{4, -1.0f}, {0, -0.01f}});
    return frame == 87 || frame == 207 ? row({{5, -0.01f}}) : row({{0, -0.01f}});
  };
  const auto nothing = [](Segment&, const Work&) { FAIL(); };
  EXPECT_EQ(finals(recognize_rows(how, 160, rows, nothing)), (std::vector<std::string>{"A", "AB"}));
  const auto alone = [&](std::int64_t frame) { return frame == 5 ? row({{0, -0.01f}}) : rows(frame); };
  EXPECT_EQ(finals(recognize_rows(how, 160, alone, nothing)), std::vector<std::string>{"B"});
  // Five seconds of silence are an utterance without words, after which a sentence begins.
  const auto later = [&](std::int64_t frame) {
    return frame == 85 || frame == 87 ? row({{0, -0.01f}}) : rows(frame);
  };
  EXPECT_EQ(finals(recognize_rows(how, 300, later, nothing)), (std::vector<std::string>{"A", "B"}));
}

TEST(Segment, TheSecondPassHearsTheEndOfTheUtteranceBefore) {
  const auto how = options(kGreedy);
  Segment segment(how);
  const std::vector<float> samples = audio(2 * 56000);
  std::vector<std::vector<std::int64_t>> sizes;  // frames of the second pass, by utterance
  for (std::size_t begin = 0; begin < samples.size();) {
    begin += segment.accept(samples.data() + begin, samples.size() - begin);
    while (const auto work = segment.work()) {
      if (!is_first_pass(*work)) {
        if (work->state->slot == kFirstPassSlot && work->state->begins) sizes.emplace_back();
        sizes.back().push_back(num_frames(*work));
      }
      run_network(segment, *work);
    }
  }
  EXPECT_EQ(finals(segment.take_events()), (std::vector<std::string>{"AB", "AB"}));
  ASSERT_EQ(sizes.size(), 2u);
  ASSERT_EQ(sizes[0].size(), 3u);
  EXPECT_EQ(sizes[0][0], sizes[0][1]);
  ASSERT_EQ(sizes[1].size(), 3u);
  // All of the one before, which is shorter than 5 s, with the silence at its end, which it did not encode again.
  EXPECT_GT(sizes[1][0] - sizes[1][1], sizes[0][0]);
  EXPECT_EQ(sizes[1][1], sizes[1][2]);
}

// With phrases, the search has one token more than the network: [unk].
TEST(Segment, PhrasesReadNoMoreThanTheNetworkGives) {
  const auto with_phrases = options();
  with_phrases->phrases = std::make_shared<const Phrases>("AB", with_phrases->tokens);
  with_phrases->options.max_alternatives = 5;
  const std::vector<float> samples = audio(16000 * 7);
  const std::vector<Event> events = recognize(with_phrases, samples, samples.size());
  EXPECT_EQ(finals(events), (std::vector<std::string>{"AB", "AB"}));
  for (const Event& event : events) {
    std::vector<std::string> texts{event.text};
    for (const Alternative& other : event.alternatives) texts.push_back(other.text);
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end()) << event.text;
  }
}

}  // namespace
}  // namespace asr_stream
