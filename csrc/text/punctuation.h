// Case and punctuation of recognized words: the input of the network, and the effect of its output on the words. The
// caller runs the network.
//
// The input has one unit per word. A unit is kNumWordFeatures row indexes of a table; the sum of these rows represents
// the word. Two rows are hashes of the whole word, so that two words hardly ever share both (Svenstrup et al. 2017,
// "Hash Embeddings"). The others are hashes of its prefixes and suffixes, which reveal names and endings of unseen
// words. So there is no vocabulary.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/language.h"
#include "work.h"

namespace asr_stream {

inline constexpr std::size_t kNumWordFeatures = 5;
inline constexpr std::int32_t kNumWordRows = 16384;  // for whole words
inline constexpr std::int32_t kNumPartRows = 4096;   // for prefixes and suffixes
inline constexpr std::int32_t kNumSpecialRows = 8;   // for units that are not words; after the other rows
inline constexpr std::int32_t kNumRows = kNumWordRows + kNumPartRows + kNumSpecialRows;

using WordFeatures = std::array<std::int32_t, kNumWordFeatures>;  // each in [0, kNumRows)

// Units around the words.
enum class SpecialUnit : std::int32_t {
  kNone,       // also fills features that another special unit does not need
  kSentence,   // before the first word: a sentence begins
  kContinues,  // before the first word: the speaker is within a sentence
  kEnd,        // after the last word: the speaker has finished
};

// Mark after a word, and case of a word, in the order of the network's outputs.
enum class Mark : std::int32_t { kNone, kComma, kPeriod, kQuestion };
enum class Case : std::int32_t { kLower, kCapitalized, kUpper };
inline constexpr std::size_t kNumMarks = 4;
inline constexpr std::size_t kNumCases = 3;

// Upper bounds in seconds of the pause classes. Class 0 is an unknown pause; the last class is any longer pause. The
// network was trained with the classes of recognized words: a new rule for word times (words.h) changes the bounds.
inline constexpr double kPauseEnds[] = {0.04, 0.08, 0.16, 0.32, 0.52, 0.82};
inline constexpr std::int32_t kNumPauseClasses = 2 + static_cast<std::int32_t>(std::size(kPauseEnds));

// The features of a word as recognized, in any case. All digits are treated alike. A period at its end ("Mr.") is
// ignored, because words of training text have none.
WordFeatures word_features(std::string_view word);
WordFeatures special_features(SpecialUnit unit);

// The class of the pause before a word, which is rounded to milliseconds; 0 for NaN. Throws std::invalid_argument for a
// negative pause.
std::int32_t pause_class(double pause_s);

// The network's input, row by row, and the index of its output for the first word.
struct PunctuationUnits {
  std::vector<std::int64_t> features;  // (num_units, kNumWordFeatures)
  std::vector<std::int64_t> pauses;    // (num_units,) classes
  std::size_t first_word;
  std::size_t num_words;
};

// The units of words that begin or continue a sentence or, with SpecialUnit::kNone, follow words that are left out.
// pauses_s: the pause before each word in seconds, NaN if unknown; empty if all are unknown. The pause before the first
// word of the text is ignored. complete: the speaker has finished after the last word. Throws std::invalid_argument if
// the number of pauses differs from the number of words, or a pause is negative.
PunctuationUnits punctuation_units(const std::vector<std::string>& words, const std::vector<double>& pauses_s,
                                   SpecialUnit beginning, bool complete);

// Outputs: mark_probs (1, num_units, kNumMarks) and case_probs (1, num_units, kNumCases).
Work punctuation_work(PunctuationUnits units);

// Spellings of words of mixed case: mcdonald -> McDonald. Keys are in lower case.
using MixedCase = std::unordered_map<std::string, std::string>;

// Metadata of a network; asr/runtime/punctuation.py has the schema.
struct PunctuationMetadata {
  std::size_t look_ahead = 0;    // words after a word that its mark and case depend on
  std::size_t left_context = 0;  // words before it
  MixedCase mixed;

  PunctuationMetadata() = default;
  // Throws std::invalid_argument with the damaged entry.
  explicit PunctuationMetadata(const std::map<std::string, std::string>& properties);
};

// A word whose mark and case have at least this probability is stable before the network has seen all of its
// look-ahead. With a lower value, words become stable sooner, but finals change more of them, and dictation does not
// take back typed text (benchmarks/formatting.py).
inline constexpr float kCertain = 0.9f;

// The mark and the case that an earlier partial shows for a word.
struct HeldMark {
  Mark mark;
  Case letter_case;
  bool has_mark;  // false for its last word, whose mark was not known
};

struct PunctuationContext {
  bool continues = false;  // the words continue a sentence, so the first one is not capitalized for its position
  bool complete = true;    // the speaker has finished; otherwise the last word gets no mark
  bool after_title = false;  // a name is expected
  const Language* language = nullptr;  // null if there are no language rules
  bool has_pauses = false;   // the network got the pauses between the words
  std::vector<std::optional<HeldMark>> held = {};  // per word; empty if none is held
};

// One entry per given word, and the state for the words after them.
struct Punctuated {
  std::vector<std::string> words;
  std::vector<Mark> marks;
  std::vector<bool> has_mark;      // its mark was written after it; not where it ends in a period of its own
  std::vector<Case> cases;         // before the effect of the words around it
  std::vector<bool> is_held;       // shown otherwise than the network would have it
  std::vector<float> certainties;  // per word: probability of the shown case times that of the likeliest mark
  std::vector<bool> name_follows;  // after a title such as "Mr.", or "doctor" in capitals, without a mark
};

// The words as shown.
//
// words: in lower case. A word with a capital, a digit or a sign other than an apostrophe keeps its letters, because an
// earlier step wrote it. mark_probs (words.size(), kNumMarks), case_probs (words.size(), kNumCases): the most likely
// mark and case are used, with these exceptions. Without pauses, a comma late in a sentence becomes a period if that is
// nearly as probable. A comma before a word that rarely follows one is removed. Three or more words of a speaker who
// has finished end in a mark. Words in all capitals need certainty, a known initialism, or a word without a vowel;
// otherwise the word is treated as a name. The first word of a sentence is capitalized; after "?" the network decides,
// because the sentence may continue after a quotation. A word's own period (p.m.) also ends a sentence. A name after a
// title is capitalized. A held word has the mark and case that it had. Throws std::invalid_argument for probabilities
// of a different number of words.
Punctuated punctuate(const std::vector<std::string>& words, const std::vector<float>& mark_probs,
                     const std::vector<float>& case_probs, const MixedCase& mixed, const PunctuationContext& context);

}  // namespace asr_stream
