#include "stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "network.h"

namespace asr_stream {
namespace {

void run(Stream& stream) {
  while (const auto work = stream.work()) run_network(stream, *work);
}

std::vector<std::string> shown(const std::vector<Event>& events) {
  std::vector<std::string> lines;
  for (const Event& event : events) {
    lines.push_back(std::string(name(event.type)) + " " + event.text + " " + std::to_string(event.start_s) + " " +
                    std::to_string(event.end_s));
  }
  return lines;
}

std::vector<Event> recognize(const std::vector<float>& samples, std::int32_t sample_rate, std::size_t push,
                             bool at_once) {
  Stream stream(network_options());
  for (std::size_t begin = 0; begin < samples.size(); begin += push) {
    stream.accept(samples.data() + begin, std::min(push, samples.size() - begin), sample_rate);
    if (at_once) run(stream);
  }
  stream.finish();
  run(stream);
  return stream.take_events();
}

// Answers with random log-probabilities: many short words, also in the first and the last frame of an utterance.
void run_random_network(Stream& stream, std::mt19937& generator) {
  std::uniform_real_distribution<float> uniform(-6.0f, 0.0f);
  const auto random = [&](std::int64_t count) {
    std::vector<float> log_probs(static_cast<std::size_t>(count * kNetworkTokens));
    for (float& log_prob : log_probs) log_prob = uniform(generator);
    return log_probs;
  };
  while (const auto work = stream.work()) {
    if (is_encoder(*work)) {
      answer(stream, *work, random(num_frames(*work)));
    } else if (is_decoder_step(*work)) {
      answer(stream, *work, random(work->outputs[0].shape[0]));
    } else {
      run_network(stream, *work);
    }
  }
}

TEST(Stream, TimesNeverRunBackward) {
  std::size_t num_adjacent = 0;
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 generator(seed);
    const auto below = [&generator](std::size_t n) { return generator() % n; };
    const auto how = [&] {
      const std::int32_t searches[] = {kGreedy, kBeam, kRescore, kJoint};
      auto result = network_options(searches[below(4)]);
      result->tokens[5] = "\xe2\x96\x81W";
      result->options.second_pass = below(2);
      result->options.max_alternatives = static_cast<std::int32_t>(below(3));
      result->chunk_size = static_cast<std::int64_t>(1 + below(8));
      result->endpointer.max_utterance_s = below(2) ? 20 : 0.5;
      return result;
    };
    Stream stream(how());
    for (int call = 0; call < 25; ++call) {
      const std::size_t kind = below(8);
      if (kind == 0) {
        stream.gap(static_cast<std::int64_t>(below(3000)));
      } else if (kind == 1) {
        stream.change(how());
      } else if (kind == 2) {
        stream.end_utterance();
      } else {
        const std::vector<float> samples(below(9000), 0.1f);
        stream.accept(samples.data(), samples.size(), below(3) ? 16000 : 22050);
      }
      run_random_network(stream, generator);
    }
    stream.finish();
    run_random_network(stream, generator);
    const double end_s = seconds(stream.sample_offset());
    double last_end_s = 0.0;  // of a final with its alternatives, or of a gap
    for (const Event& event : stream.take_events()) {
      ASSERT_GE(event.start_s, last_end_s) << seed << " " << name(event.type);
      ASSERT_GE(event.end_s, event.start_s);
      ASSERT_LE(event.end_s, end_s);
      std::vector<std::vector<Word>> lists{event.words, event.raw_words};
      for (const Alternative& other : event.alternatives) lists.push_back(other.words);
      double utterance_end_s = event.end_s;
      for (const std::vector<Word>& words : lists) {
        double at_s = last_end_s;
        for (const Word& word : words) {
          num_adjacent += word.start_s == at_s;
          ASSERT_GE(word.start_s, at_s) << seed << " " << name(event.type);
          ASSERT_GT(word.end_s, word.start_s);
          at_s = word.end_s;
        }
        ASSERT_LE(at_s, end_s);
        utterance_end_s = std::max(utterance_end_s, at_s);
      }
      if (event.type == Event::Type::kFinal || event.type == Event::Type::kGap) last_end_s = utterance_end_s;
    }
  }
  EXPECT_GT(num_adjacent, 1000u);  // so the limit matters
}

TEST(Stream, ReportsFaintSpeechOnce) {
  const std::vector<float> loud = utterances(2 * 56000);
  const auto recognize_at = [&](float level, std::size_t first_loud) {
    std::vector<float> samples = loud;
    for (std::size_t i = first_loud; i < samples.size(); ++i) samples[i] *= level;
    std::vector<std::string> errors;
    for (const Event& event : recognize(samples, 16000, 1600, true)) {
      if (event.type == Event::Type::kError) errors.push_back(event.text);
    }
    return errors;
  };
  EXPECT_TRUE(recognize_at(0.007f, 0).empty());
  const std::vector<std::string> expected{
      "speech is very faint, 54 dB below full scale, so words may be wrong: raise the level by about 44 dB (more is "
      "not reported)"};
  EXPECT_EQ(recognize_at(0.004f, 0), expected);
  EXPECT_TRUE(recognize_at(0.004f, 56000).empty());  // of two utterances, one may be faint
  std::vector<std::int16_t> integers;
  for (const float sample : loud) {
    integers.push_back(static_cast<std::int16_t>(std::lround(0.004f * 32768.0f * sample)));
  }
  Stream stream(network_options());
  stream.accept(integers.data(), integers.size(), 16000);
  stream.finish();
  run(stream);
  std::size_t num_errors = 0;
  for (const Event& event : stream.take_events()) num_errors += event.text.rfind("speech is very faint", 0) == 0;
  EXPECT_EQ(num_errors, 1u);
}

TEST(Stream, EventsDoNotDependOnHowAudioIsCutNorOnWhenTheNetworkRuns) {
  for (const std::int32_t rate : {16000, 44100, 8000, 47999}) {
    const std::vector<float> samples = utterances(static_cast<std::size_t>(rate) * 6, static_cast<std::size_t>(rate));
    const auto whole = shown(recognize(samples, rate, samples.size(), true));
    EXPECT_EQ(std::count_if(whole.begin(), whole.end(), [](const auto& s) { return s.rfind("final AB", 0) == 0; }), 2)
        << rate;
    for (const std::size_t push : {159u, 10000u}) {
      EXPECT_EQ(shown(recognize(samples, rate, push, true)), whole);
      EXPECT_EQ(shown(recognize(samples, rate, push, false)), whole);  // all of it queued
    }
    if (rate <= 16000) {  // takes seconds
      EXPECT_EQ(shown(recognize(samples, rate, 1, rate == 8000)), whole);
    }
  }
}

TEST(Stream, ReportsGapsAfterTheWordsBeforeThem) {
  const std::vector<float> samples = utterances(20000);
  for (const bool at_once : {true, false}) {
    Stream stream(network_options());
    for (int i = 0; i < 3; ++i) {
      stream.accept(samples.data(), samples.size());
      if (at_once) run(stream);
      stream.gap(16000 * i);
      if (at_once) run(stream);
    }
    EXPECT_EQ(stream.sample_offset(), 60000 + 48000);
    stream.finish();
    run(stream);
    std::vector<std::string> found;
    for (const Event& event : stream.take_events()) {
      if (event.type != Event::Type::kPartial) found.push_back(name(event.type) + std::string(" ") + event.text);
      if (event.type == Event::Type::kGap) {
        EXPECT_EQ(event.start_s, found.size() < 4 ? 40000 / 16000.0 : 76000 / 16000.0);
      }
    }
    EXPECT_EQ(found, (std::vector<std::string>{"final ABAB", "gap 1.000 s of audio were lost", "final AB",
                                               "gap 2.000 s of audio were lost"}));
  }
}

TEST(Stream, TheClockIsExactForAnyMixtureOfRates) {
  Clock clock;
  for (int i = 0; i < 44100; ++i) clock.advance(1, 44100);
  EXPECT_EQ(clock.position(), 16000);
  for (int i = 0; i < 3 * 44100 * 4; ++i) clock.advance(1, i % 3 == 0 ? 44100 : i % 3 == 1 ? 48000 : 22050);
  EXPECT_EQ(clock.position(), 16000 + 4 * 16000 + 4 * 14700 + 2 * 4 * 16000);
  clock.advance(std::int64_t{1} << 40, 16000);
  EXPECT_EQ(clock.position(), 16000 * 13 + 58800 + (std::int64_t{1} << 40));
  Clock odd;  // so many divisors that a remainder is rounded 342 times; the errors must not add up
  double seconds = 0.0;
  for (int rate = 1000; rate < 2000; ++rate) {
    odd.advance(1, rate);
    seconds += 1.0 / rate;
  }
  EXPECT_NEAR(static_cast<double>(odd.position()), 16000.0 * seconds, 2.0);
}

TEST(Stream, AChangeOfTheRateNeitherAddsNorLosesASample) {
  Stream stream(network_options(kGreedy));
  const std::vector<float> silence(5000, 0.0f);
  std::mt19937 generator(2);
  double seconds = 0.0;
  for (int i = 0; i < 300; ++i) {
    const std::int32_t rate = std::vector<std::int32_t>{16000, 44100, 48000, 8000, 22050}[generator() % 5];
    const std::size_t count = generator() % 500;
    stream.accept(silence.data(), count, rate);
    run(stream);
    seconds += static_cast<double>(count) / rate;
  }
  stream.finish();
  run(stream);
  EXPECT_EQ(stream.segment().num_samples(), stream.sample_offset());
  EXPECT_NEAR(static_cast<double>(stream.sample_offset()), seconds * 16000, 0.51);
}

TEST(Stream, SamplesThatAreNotFiniteAreReportedAtAnyRate) {
  for (const std::int32_t rate : {16000, 48000}) {
    std::vector<float> samples = utterances(static_cast<std::size_t>(rate) * 2, static_cast<std::size_t>(rate));
    samples[100] = std::numeric_limits<float>::quiet_NaN();
    samples[200] = std::numeric_limits<float>::infinity();
    samples[300] = 2e9f;
    std::size_t num_errors = 0;
    for (const Event& event : recognize(samples, rate, 1000, true)) {
      if (event.type != Event::Type::kError) continue;
      ++num_errors;
      EXPECT_EQ(event.text.rfind("3 samples were not finite", 0), 0u);
    }
    EXPECT_EQ(num_errors, 1u);
  }
}

TEST(Stream, FloatsInTheRangeOfInt16AreReportedOnce) {
  for (const std::int32_t rate : {16000, 48000}) {
    const std::vector<float> samples = utterances(static_cast<std::size_t>(rate) * 2, static_cast<std::size_t>(rate));
    std::vector<float> loud = samples, clicks = samples;
    for (float& sample : loud) sample *= 32768.0f;
    for (std::size_t i = 0; i < 20; ++i) clicks[1000 * i] = 100.0f;
    for (const bool is_loud : {true, false}) {
      std::vector<std::vector<std::string>> errors;
      for (const std::size_t piece : {std::size_t{77}, samples.size()}) {
        errors.emplace_back();
        for (const Event& event : recognize(is_loud ? loud : clicks, rate, piece, true)) {
          if (event.type == Event::Type::kError) errors.back().push_back(event.text + std::to_string(event.start_s));
        }
      }
      EXPECT_EQ(errors[0], errors[1]);
      ASSERT_EQ(errors[0].size(), is_loud ? 1u : 0u);
      if (is_loud) {
        EXPECT_NE(errors[0][0].find("by 32768"), std::string::npos);
      }
    }
  }
  Stream stream(network_options());
  const std::vector<float> loud(16000, 500.0f);
  for (int i = 0; i < 3; ++i) {
    stream.accept(loud.data(), loud.size());
    stream.gap(100);
    run(stream);
  }
  std::size_t num_errors = 0;
  for (const Event& event : stream.take_events()) num_errors += event.type == Event::Type::kError;
  EXPECT_EQ(num_errors, 1u);
}

TEST(Stream, AFailureIsFinalAndSaysWhyAndLosesNoEvent) {
  const std::vector<float> samples = utterances(60000);
  for (const bool by_answer : {true, false}) {
    Stream stream(network_options());
    stream.accept(samples.data(), 40000);
    run(stream);
    const std::size_t num_before = recognize(samples, 16000, 40000, true).size();
    stream.accept(samples.data() + 40000, 20000);
    ASSERT_NE(stream.work(), nullptr);
    if (by_answer) {
      const std::vector<float> nan(16 * 6, std::numeric_limits<float>::quiet_NaN());
      EXPECT_THROW(answer(stream, *stream.work(), nan), StreamFailed);
    } else {
      stream.fail("no more memory on the device");
      stream.fail("something else");
    }
    const std::string why = by_answer ? "NaN" : "no more memory on the device";
    const auto refused = [&](auto call) {
      try {
        call();
        FAIL() << "a dead stream went on";
      } catch (const StreamFailed& error) {
        EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
      }
    };
    refused([&] { stream.accept(samples.data(), 1); });
    refused([&] { stream.gap(1); });
    refused([&] { stream.end_utterance(); });
    refused([&] { stream.finish(); });
    refused([&] { stream.finish(); });
    refused([&] { stream.work(); });
    refused([&] { stream.answer({}); });
    const std::vector<Event> events = stream.take_events();
    EXPECT_GT(events.size(), 1u);
    EXPECT_LE(events.size(), num_before);
    EXPECT_NE(std::find_if(events.begin(), events.end(), [](const Event& e) { return e.text == "AB"; }), events.end());
    EXPECT_TRUE(stream.take_events().empty());
  }
}

// The events of two utterances. Each run of a network that is not the encoder is passed to `answer` of the stream and
// the number of such runs before it; if that returns false, it is answered as usual.
template <typename Answer>
std::vector<Event> recognize_with(const std::shared_ptr<SegmentOptions>& how, Answer answer) {
  Stream stream(how);
  const std::vector<float> samples = utterances(16000 * 7);
  stream.accept(samples.data(), samples.size());
  stream.finish();
  for (int count = 0; const auto work = stream.work();) {
    if (is_encoder(*work) || !answer(stream, count++)) run_network(stream, *work);
  }
  EXPECT_EQ(stream.failure(), "");
  return stream.take_events();
}

std::vector<std::string> texts(const std::vector<Event>& events, Event::Type type) {
  std::vector<std::string> result;
  for (const Event& event : events) {
    if (event.type == type) result.push_back(event.text);
  }
  return result;
}

using Texts = std::vector<std::string>;

TEST(Stream, WithoutTheDecoderFinalsComeFromTheSearch) {
  for (const std::int32_t search : {kRescore, kJoint}) {
    int num_runs = 0;
    const auto fails = [&](Stream& stream, int) {
      ++num_runs;
      stream.not_answered("no luck");
      return true;
    };
    const auto is_odd = [&](Stream& stream, int) {
      ++num_runs;
      stream.answer({});
      return true;
    };
    for (const bool odd : {false, true}) {
      num_runs = 0;
      const auto how = network_options(search);
      const std::vector<Event> events = odd ? recognize_with(how, is_odd) : recognize_with(how, fails);
      EXPECT_EQ(texts(events, Event::Type::kFinal), (Texts{"AB", "AB"}));
      EXPECT_EQ(num_runs, 2);  // it is tried again for the next utterance
      const Texts errors = texts(events, Event::Type::kError);
      ASSERT_EQ(errors.size(), 1u);
      EXPECT_EQ(errors[0].rfind("the decoder failed, and recognition goes on without it: ", 0), 0u) << errors[0];
      EXPECT_NE(errors[0].find(odd ? "" : "no luck"), std::string::npos);
    }
  }
}

TEST(Stream, AJointSearchMayFailInItsMiddleAndSucceedLater) {
  const auto fails_third = [](Stream& stream, int count) {
    if (count == 2) stream.not_answered("no luck");
    return count == 2;
  };
  const std::vector<Event> events = recognize_with(network_options(kJoint), fails_third);
  EXPECT_EQ(texts(events, Event::Type::kFinal).size(), 2u);
  EXPECT_EQ(texts(events, Event::Type::kFinal)[0], "AB");
  EXPECT_EQ(texts(events, Event::Type::kError).size(), 1u);
}

TEST(Stream, WithoutTheNetworkForPunctuationTextIsStillMasked) {
  const auto how = network_options(kGreedy);
  const auto text = std::make_shared<TextOptions>();
  text->language = language("en");
  text->punctuation = std::make_shared<PunctuationMetadata>();
  text->mask = std::make_shared<const WordMask>("ab");
  how->text = text;
  int num_runs = 0;
  const std::vector<Event> events = recognize_with(how, [&](Stream& stream, int count) {
    ++num_runs;
    if (count % 2) stream.not_answered("no luck");
    else stream.answer({{nullptr, {1, 1, 4}}, {nullptr, {1, 0, 3}}});
    return true;
  });
  EXPECT_EQ(texts(events, Event::Type::kFinal), (Texts{"**", "**"}));
  EXPECT_GT(num_runs, 4);
  const Texts errors = texts(events, Event::Type::kError);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].rfind("the network for case and punctuation failed, and recognition goes on", 0), 0u);
}

TEST(Stream, WithoutTheEncoderAStreamFails) {
  Stream stream(network_options());
  const std::vector<float> samples = utterances(20000);
  stream.accept(samples.data(), samples.size());
  ASSERT_NE(stream.work(), nullptr);
  stream.not_answered("no luck");
  EXPECT_EQ(stream.failure(), "no luck");
  EXPECT_THROW(stream.work(), StreamFailed);
  stream.not_answered("again");  // has no effect
  EXPECT_EQ(stream.failure(), "no luck");
}

TEST(Stream, FailsWithoutAReason) {
  Stream stream(network_options());
  stream.fail("");
  EXPECT_THROW(stream.finish(), StreamFailed);
  EXPECT_NE(stream.failure(), "");
}

TEST(Stream, AFailureShowsTheWordsThatWaitForPunctuationWithoutIt) {
  const auto options = network_options(kGreedy);
  const auto text = std::make_shared<TextOptions>();
  text->language = language("en");
  text->punctuation = std::make_shared<PunctuationMetadata>();
  text->mask = std::make_shared<const WordMask>("ab");
  options->text = text;
  options->options.second_pass = false;
  options->endpointer.silence_after_speech_s = 0.5;  // independent of the words
  options->chunk_size = 100;                         // an utterance, and the beginning of the next one
  Stream stream(options);
  const std::vector<float> samples = utterances(66000);
  stream.accept(samples.data(), samples.size());
  ASSERT_NE(stream.work(), nullptr);
  run_network(stream, *stream.work());
  ASSERT_NE(stream.work(), nullptr);
  EXPECT_EQ(stream.work()->network, Network::kPunctuation);
  EXPECT_TRUE(stream.take_events().empty());
  stream.fail("no more memory on the device");
  std::vector<std::string> found;
  for (const Event& event : stream.take_events()) {
    found.push_back(name(event.type) + std::string(" ") + event.text);
    EXPECT_EQ(event.raw, event.type == Event::Type::kFinal ? "AB" : "A");
    EXPECT_EQ(event.raw_words.size(), event.words.size());
  }
  EXPECT_EQ(found, (std::vector<std::string>{"final **", "partial a"}));
}

TEST(Stream, BadCallsAreRefusedAndChangeNothing) {
  Stream stream(network_options());
  const std::vector<float> zeros(100, 0.0f);
  EXPECT_THROW(stream.accept(zeros.data(), 100, 999), std::invalid_argument);
  EXPECT_THROW(stream.accept(zeros.data(), 100, 768001), std::invalid_argument);
  EXPECT_THROW(stream.gap(-1), std::invalid_argument);
  EXPECT_THROW(stream.gap(Stream::kMaxGap + 1), std::invalid_argument);
  EXPECT_THROW(stream.answer({{zeros.data(), {1, 1, 6}}, {zeros.data(), {1, 1, 3}}}), std::logic_error);
  const auto wrong = network_options();
  wrong->chunk_size = 0;
  EXPECT_THROW(stream.change(wrong), std::invalid_argument);
  EXPECT_EQ(stream.failure(), "");
  EXPECT_EQ(stream.sample_offset(), 0);
  for (int i = 0; i < 1 << 5; ++i) stream.gap(Stream::kMaxGap);
  EXPECT_EQ(stream.sample_offset(), Stream::kMaxPosition);
  EXPECT_THROW(stream.gap(1), std::invalid_argument);
  stream.finish();
  stream.finish();
  EXPECT_THROW(stream.accept(zeros.data(), 100), StreamFinished);
  EXPECT_THROW(stream.gap(1), StreamFinished);
}

TEST(Stream, ChangedOptionsApplyToLaterAudio) {
  const std::vector<float> samples = utterances(20000);
  Stream stream(network_options());
  stream.accept(samples.data(), samples.size());
  const auto greedy = network_options(kGreedy);
  greedy->chunk_size = 4;
  stream.change(greedy);
  stream.accept(samples.data(), samples.size());
  stream.finish();
  EXPECT_EQ(stream.num_changes(), 0);
  std::vector<std::int64_t> lengths;
  while (const auto work = stream.work()) {
    if (is_first_pass(*work) && work->state->begins) lengths.push_back(work->inputs[0].shape[1]);
    run_network(stream, *work);
  }
  EXPECT_EQ(stream.num_changes(), 1);
  EXPECT_EQ(lengths, (std::vector<std::int64_t>{67, 19}));
}

TEST(Stream, NumWantedCompletesAChunk) {
  for (const std::int32_t rate : {16000, 44100, 48000, 8000}) {
    Stream stream(network_options(kGreedy));
    const std::vector<float> silence(200000, 0.0f);
    for (int i = 0; i < 5; ++i) {
      stream.accept(silence.data(), 100, rate);
      ASSERT_EQ(stream.work(), nullptr);
      const std::int64_t wanted = stream.num_wanted() * rate / 16000;
      stream.accept(silence.data(), static_cast<std::size_t>(wanted - 20), rate);
      EXPECT_EQ(stream.work(), nullptr) << rate;
      stream.accept(silence.data(), 40, rate);
      EXPECT_NE(stream.work(), nullptr) << rate;
      run(stream);
    }
  }
}

}  // namespace
}  // namespace asr_stream
