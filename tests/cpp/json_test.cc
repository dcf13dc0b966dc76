#include "json.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "options.h"

namespace asr_stream {
namespace {

TEST(Json, TextOfAnyBytesIsQuoted) {
  EXPECT_EQ(json_text("caf\xC3\xA9 \"\\\n\x1F\x7F \xF0\x9F\x98\x80"),
            "\"caf\xC3\xA9 \\\"\\\\\\u000a\\u001f\x7F \xF0\x9F\x98\x80\"");
  EXPECT_EQ(json_text(std::string("a\0b", 3)), "\"a\\u0000b\"");
  const std::string wrong = "\xEF\xBF\xBD";  // U+FFFD
  EXPECT_EQ(json_text("\xC3(\xFF\xE2\x82"), '"' + wrong + '(' + wrong + wrong + wrong + '"');
  EXPECT_EQ(json_text("\xED\xA0\x80"), '"' + wrong + wrong + wrong + '"');  // a surrogate
}

TEST(Json, NumbersAreExactAndShort) {
  for (const char* text : {"0", "0.1", "0.95", "640", "-2.4", "1048576", "0.8700000047683716", "3600.6400000000003"}) {
    EXPECT_EQ(number_text(std::stod(text)), text);
  }
  EXPECT_EQ(number_text(kInfinity), "inf");
}

TEST(Json, AnEventIsAnObjectWithTheKeysOfItsType) {
  Event event{Event::Type::kGap, "lost", 1.0, 1.5, {}};
  EXPECT_EQ(to_json(event), R"({"type":"gap","text":"lost","start":1,"end":1.5,"words":[]})");
  event.type = Event::Type::kPartial;
  event.text = "A";
  event.words = {{"A", 1.0, std::numeric_limits<double>::quiet_NaN(), 0.5f}};
  event.raw = "a";
  event.num_stable = 1;
  EXPECT_EQ(to_json(event, KeyCase::kCamel),
            R"({"type":"partial","text":"A","start":1,"end":1.5,)"
            R"("words":[{"word":"A","start":1,"end":null,"confidence":0.5}],"raw":"a","rawWords":[],"numStable":1})");
  event.type = Event::Type::kFinal;
  event.words.clear();
  event.endpoint = kEndOfAudio;
  event.alternatives = {{"B", {}, 0.25f}, {"C", {}, 0.125f}};
  event.num_taken_back = 2;
  EXPECT_EQ(to_json(event),
            R"({"type":"final","text":"A","start":1,"end":1.5,"words":[],"raw":"a","raw_words":[],)"
            R"("endpoint":"end_of_audio","alternatives":[{"text":"B","confidence":0.25,"words":[]},)"
            R"({"text":"C","confidence":0.125,"words":[]}],"num_taken_back":2})");
}

}  // namespace
}  // namespace asr_stream
