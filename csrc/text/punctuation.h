// Case and punctuation of recognized words: what the network reads, and what its answer does to the words. The network
// itself is run by whoever binds this.
//
// The network sees one unit a word. A unit is kNumWordFeatures rows of one table, whose sum stands for the word: the
// whole word hashed twice, so that two words hardly ever share both rows (Svenstrup et al. 2017, "Hash Embeddings"),
// and parts of it, which reveal names and endings of words that were never seen. So there is no list of words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/language.h"

namespace asr_stream {

inline constexpr std::size_t kNumWordFeatures = 5;
inline constexpr std::int32_t kNumWordRows = 16384;  // of whole words
inline constexpr std::int32_t kNumPartRows = 4096;   // of beginnings and endings
inline constexpr std::int32_t kNumSpecialRows = 8;   // of units that are not words, after the others
inline constexpr std::int32_t kNumRows = kNumWordRows + kNumPartRows + kNumSpecialRows;

using WordFeatures = std::array<std::int32_t, kNumWordFeatures>;  // each in [0, kNumRows)

// Units around the words.
enum class SpecialUnit : std::int32_t {
  kNone,       // also fills the features that another special unit does not need
  kSentence,   // before the first word: a sentence begins
  kContinues,  // before the first word: the speaker is within a sentence
  kEnd,        // after the last word: the speaker has ended
};

// Mark after a word, and case of a word, in the order of the network's outputs.
enum class Mark : std::int32_t { kNone, kComma, kPeriod, kQuestion };
enum class Case : std::int32_t { kLower, kCapitalized, kUpper };
inline constexpr std::size_t kNumMarks = 4;
inline constexpr std::size_t kNumCases = 3;

// Upper ends in seconds of the classes of pauses; class 0 is an unknown pause, the last one any longer pause.
inline constexpr double kPauseEnds[] = {0.04, 0.12, 0.24, 0.4, 0.6, 0.9};
inline constexpr std::int32_t kNumPauseClasses = 8;

// Of a word as it is recognized, in any case; digits are alike. A full stop at its end ("Mr.") does not count: words of
// training text have none.
WordFeatures word_features(std::string_view word);
WordFeatures special_features(SpecialUnit unit);

// Class of the pause before a word, which is rounded to milliseconds; of NaN, 0. std::invalid_argument for a negative
// one.
std::int32_t pause_class(double pause_s);

// What the network reads, row by row, and where its answer for the first word stands.
struct PunctuationUnits {
  std::vector<std::int64_t> features;  // (num_units, kNumWordFeatures)
  std::vector<std::int64_t> pauses;    // (num_units,) classes
  std::size_t first_word;
  std::size_t num_words;
};

// The units of words that a sentence begins with or goes on with, or, as SpecialUnit::kNone, whose beginning is left
// out. pauses_s: the pause before each word in seconds, NaN where unknown; empty for all unknown. That before the first
// word of all does not count. complete: the speaker has ended behind the last word. std::invalid_argument for another
// number of pauses than words, or a negative one.
PunctuationUnits punctuation_units(const std::vector<std::string>& words, const std::vector<double>& pauses_s,
                                   SpecialUnit beginning, bool complete);

// How words are written whose case is mixed: mcdonald -> McDonald. Keys are in small letters.
using MixedCase = std::unordered_map<std::string, std::string>;

// Metadata of a network: the schema is that of asr/runtime/punctuation.py.
struct PunctuationMetadata {
  std::size_t look_ahead = 0;    // words after a word that its mark and case depend on
  std::size_t left_context = 0;  // words before it
  MixedCase mixed;
};

// std::invalid_argument naming the entry that is damaged.
PunctuationMetadata read_punctuation_metadata(const std::map<std::string, std::string>& properties);

struct PunctuationContext {
  bool continues = false;  // the words go on with a sentence, so the first one is not capitalized for its place
  bool complete = true;    // the speaker has ended; else the last word gets no mark
  bool after_title = false;  // a name is expected
  std::size_t sentence_length = 0;     // words of the sentence before these
  const Language* language = nullptr;  // or none, and no rules of one
};

// One entry for each word given, and what the words after them depend on.
struct Punctuated {
  std::vector<std::string> words;
  std::vector<Mark> marks;
  std::vector<float> certainties;  // by the network, of what is shown for a word, for it and for the words before it
  std::vector<bool> name_follows;  // after a title such as "Mr.", or "doctor" in capitals, without a mark
};

// The words as they are shown.
//
// words: in small letters. One with a capital, a digit or a sign that is not an apostrophe keeps its letters: an
// earlier step wrote it so. mark_probs (words.size(), kNumMarks), case_probs (words.size(), kNumCases): the most likely
// is taken, with these exceptions. A comma far into a sentence is a full stop where that is nearly as probable; one
// before a word that rarely has a comma before it is left out; three and more words of a speaker who has ended do end
// in a mark. Capitals throughout need to be certain, or an initialism, or a word without a vowel: else it is a name.
// The first word of a sentence is capitalized; after "?" the network decides, because speech may be quoted there. A
// full stop of a word's own (p.m.) also ends a sentence. A name after a title has a capital.
// std::invalid_argument for probabilities of another number of words.
Punctuated punctuate(const std::vector<std::string>& words, const std::vector<float>& mark_probs,
                     const std::vector<float>& case_probs, const MixedCase& mixed, const PunctuationContext& context);

}  // namespace asr_stream
