#include "text/punctuation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "contract.h"
#include "text/letter_case.h"

namespace asr_stream {
namespace {

// FNV-1a, then the finalizer of MurmurHash3, because the low bits of FNV alone are poorly mixed.
std::uint32_t hash(std::string_view text, std::uint32_t seed) {
  std::uint32_t h = 2166136261u ^ seed;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

std::int32_t part_row(std::string_view part, std::uint32_t seed) {
  return kNumWordRows + static_cast<std::int32_t>(hash(part, seed) % kNumPartRows);
}

std::string_view without_stop(std::string_view word) {
  const bool has_stop = word.size() > 1 && word.back() == '.';
  return word.substr(0, word.size() - has_stop);
}

std::string_view tail(std::string_view text, std::size_t size) {
  return text.size() <= size ? text : text.substr(text.size() - size);
}

// Whether a word has only lower-case letters and apostrophes.
bool is_plain(std::string_view word) {
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && !(byte >= 'a' && byte <= 'z') && byte != '\'') return false;
  }
  return word == to_lower(word);
}

std::string without_possessive(const std::string& word) {
  const bool possessive = word.size() > 2 && word.compare(word.size() - 2, 2, "'s") == 0;
  return word.substr(0, word.size() - (possessive ? 2 : 0));
}

std::string upper(const std::string& word) {
  const std::string stem = without_possessive(word);
  return to_upper(stem) + word.substr(stem.size());
}

std::string cased(const std::string& word, Case kind, bool begins_sentence, const MixedCase& mixed) {
  const auto form = mixed.find(word);
  if (kind != Case::kLower && form != mixed.end()) return form->second;
  if (kind == Case::kUpper) return upper(word);
  return kind == Case::kCapitalized || begins_sentence ? capitalized(word) : word;
}

std::size_t best(const float* probs, std::size_t count) {
  return static_cast<std::size_t>(std::max_element(probs, probs + count) - probs);
}

float probability(const float* mark_probs, Mark mark) { return mark_probs[static_cast<std::size_t>(mark)]; }

// Without pauses, a comma in a sentence of at least kLongSentence words becomes a period if that has a probability
// above kLikelyStop. This raises the F1 of all marks, in TED talks from 55.7 to 57.9; in shorter sentences, it would
// lower it. With pauses, 23 of the 34 periods that it adds to 13,000 words of read speech are false.
constexpr float kLikelyStop = 0.3f;
constexpr std::size_t kLongSentence = 8;

// Fewer words may be an answer or only part of a sentence.
constexpr std::size_t kMinMarked = 3;

// Words that books write in capitals have a probability of 0.99; names that the network does not know have up to 0.84.
constexpr float kCertainCapitals = 0.85f;

Mark likely_mark(const float* probs, std::size_t sentence_length, const std::string& next,
                 const PunctuationContext& context) {
  const Mark mark = static_cast<Mark>(best(probs, kNumMarks));
  if (mark != Mark::kComma) return mark;
  const bool is_long = sentence_length >= kLongSentence;
  if (is_long && !context.has_pauses && probability(probs, Mark::kPeriod) > kLikelyStop) return Mark::kPeriod;
  if (!context.language) return mark;
  const auto rare = context.language->rare_commas->find(next);
  return rare != context.language->rare_commas->end() && probability(probs, mark) < rare->second ? Mark::kNone : mark;
}

// The mark after the last word of a speaker who has finished.
Mark end_mark(const float* probs, Mark likely) {
  if (likely == Mark::kPeriod || likely == Mark::kQuestion) return likely;
  return probability(probs, Mark::kQuestion) > probability(probs, Mark::kPeriod) ? Mark::kQuestion : Mark::kPeriod;
}

Case likely_case(const std::string& word, const float* probs, const Language* language) {
  const Case likely = static_cast<Case>(best(probs, kNumCases));
  const bool is_sure = likely != Case::kUpper || probs[static_cast<std::size_t>(likely)] >= kCertainCapitals ||
                       word.find_first_of("aeiouy") == std::string::npos ||
                       (language && language->is_initialism(word));
  return is_sure ? likely : Case::kCapitalized;
}

// The case of each word by itself, and the mark after it.
struct Likely {
  std::vector<Case> cases;
  std::vector<Mark> marks;
};

// Words of which the network is uncertain get the case that is likeliest for all places of the word, without those
// that begin a sentence: the same name has the same letters.
void agree(const std::vector<std::string>& words, const std::vector<float>& case_probs, Likely& likely) {
  struct Places {
    std::array<float, kNumCases> sums{};
    std::vector<std::size_t> uncertain;
    std::size_t count = 0;
  };
  std::unordered_map<std::string, Places> places;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!is_plain(words[i]) || likely.marks[i - 1] == Mark::kPeriod || likely.marks[i - 1] == Mark::kQuestion) continue;
    Places& of_word = places[without_possessive(words[i])];
    const float* probs = &case_probs[i * kNumCases];
    for (std::size_t k = 0; k < kNumCases; ++k) of_word.sums[k] += probs[k];
    ++of_word.count;
    if (probs[best(probs, kNumCases)] < kCertain) of_word.uncertain.push_back(i);
  }
  for (const auto& [word, of_word] : places) {
    const auto likeliest = static_cast<Case>(best(of_word.sums.data(), kNumCases));
    for (const std::size_t i : of_word.uncertain) {
      if (of_word.count > 1) likely.cases[i] = likeliest;
    }
  }
}

// Who is spoken to: "yes, Captain", but not "to the captain,".
bool is_called(const std::vector<std::string>& words, const Likely& likely, std::size_t i, const NameWords& names) {
  return likely.marks[i] != Mark::kNone && i > 0 && !names.determiners.count(words[i - 1]);
}

// "king" in "King Henry" and "King of France", not in "the king's men". The network knows few names after "doctor".
bool precedes_name(const std::vector<std::string>& words, const Likely& likely, std::size_t i, const NameWords& names) {
  const bool has_next = likely.marks[i] == Mark::kNone && i + 1 < words.size();
  if (has_next && names.titles.count(words[i]) && names.may_be_name(words[i + 1])) return true;
  do {
    if (likely.marks[i] != Mark::kNone || ++i == words.size()) return false;
  } while (names.ranks.count(words[i]));
  if (words[i] == "of" && likely.marks[i] == Mark::kNone) ++i;
  return i < words.size() && likely.cases[i] != Case::kLower;
}

bool expects_name(const std::string& word, Mark mark, Case shown_case, bool before, const NameWords& names) {
  if (mark != Mark::kNone) return false;
  const std::string title = to_lower(without_stop(word));
  if (names.particles.count(title)) return before;
  return (word != title || shown_case != Case::kLower) && names.titles.count(title);
}

}  // namespace

WordFeatures word_features(std::string_view word) {
  std::string text = to_lower(without_stop(word));
  for (char& c : text) {
    if (c >= '0' && c <= '9') c = '0';
  }
  const std::string_view view = text;
  return {static_cast<std::int32_t>(hash(view, 0) % kNumWordRows),
          static_cast<std::int32_t>(hash(view, 1) % kNumWordRows), part_row(view.substr(0, 3), 2),
          part_row(tail(view, 2), 3), part_row(tail(view, 4), 4)};
}

WordFeatures special_features(SpecialUnit unit) {
  constexpr std::int32_t first = kNumWordRows + kNumPartRows;
  WordFeatures features;
  features.fill(first + static_cast<std::int32_t>(SpecialUnit::kNone));
  features[0] = first + static_cast<std::int32_t>(unit);
  return features;
}

std::int32_t pause_class(double pause_s) {
  if (std::isnan(pause_s)) return 0;
  if (pause_s < 0) throw std::invalid_argument("a pause must not be negative, got " + std::to_string(pause_s) + " s");
  // Pauses are whole encoder frames, as are most of the bounds. Without rounding, the difference of two stream times
  // would fall on either side of a bound.
  const double to_the_ms = std::round(1000 * pause_s) / 1000;
  return 1 + static_cast<std::int32_t>(std::upper_bound(std::begin(kPauseEnds), std::end(kPauseEnds), to_the_ms) -
                                       std::begin(kPauseEnds));
}

PunctuationUnits punctuation_units(const std::vector<std::string>& words, const std::vector<double>& pauses_s,
                                   SpecialUnit beginning, bool complete) {
  if (!pauses_s.empty() && pauses_s.size() != words.size()) {
    throw std::invalid_argument("got " + std::to_string(pauses_s.size()) + " pauses for " +
                                std::to_string(words.size()) + " words; one before each is needed");
  }
  PunctuationUnits units;
  const auto add = [&units](const WordFeatures& features, std::int32_t pause) {
    for (const std::int32_t row : features) units.features.push_back(row);  // GCC 12 misreads an insert
    units.pauses.push_back(pause);
  };
  const bool within = beginning == SpecialUnit::kNone;
  if (!within) add(special_features(beginning), 0);
  units.first_word = units.pauses.size();
  units.num_words = words.size();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::int32_t pause = pauses_s.empty() ? 0 : pause_class(pauses_s[i]);
    add(word_features(words[i]), i == 0 && !within ? 0 : pause);
  }
  if (complete) add(special_features(SpecialUnit::kEnd), 0);
  return units;
}

Work punctuation_work(PunctuationUnits units) {
  const auto num_units = static_cast<std::int64_t>(units.pauses.size());
  return {Network::kPunctuation,
          {{kPunctuationInputs[0],
            {1, num_units, static_cast<std::int64_t>(kNumWordFeatures)},
            std::move(units.features)},
           {kPunctuationInputs[1], {1, num_units}, std::move(units.pauses)},
           {kPunctuationInputs[2], {1}, std::vector<std::int64_t>{num_units}}},
          {{kPunctuationOutputs[0], {1, num_units, static_cast<std::int64_t>(kNumMarks)}},
           {kPunctuationOutputs[1], {1, num_units, static_cast<std::int64_t>(kNumCases)}}}};
}

Punctuated punctuate(const std::vector<std::string>& words, const std::vector<float>& mark_probs,
                     const std::vector<float>& case_probs, const MixedCase& mixed, const PunctuationContext& context) {
  if (mark_probs.size() != words.size() * kNumMarks || case_probs.size() != words.size() * kNumCases) {
    throw std::invalid_argument("got " + std::to_string(mark_probs.size()) + " probabilities of marks and " +
                                std::to_string(case_probs.size()) + " of cases for " + std::to_string(words.size()) +
                                " words; " + std::to_string(kNumMarks) + " and " + std::to_string(kNumCases) +
                                " a word are needed");
  }
  static const NameWords none;
  const NameWords& names = context.language ? *context.language->names : none;
  Punctuated shown;
  Likely likely;
  for (std::size_t i = 0; i < words.size(); ++i) {
    likely.cases.push_back(likely_case(words[i], &case_probs[i * kNumCases], context.language));
    likely.marks.push_back(static_cast<Mark>(best(&mark_probs[i * kNumMarks], kNumMarks)));
  }
  agree(words, case_probs, likely);
  bool begins = !context.continues, after_title = context.after_title;
  std::size_t sentence_length = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const float *marks = &mark_probs[i * kNumMarks], *cases = &case_probs[i * kNumCases];
    const bool is_last = i + 1 == words.size(), plain = is_plain(words[i]);
    const bool is_name = after_title && names.may_be_name(words[i]) && !names.particles.count(words[i]);
    const std::string stem = without_possessive(words[i]);
    const bool is_rank = names.ranks.count(stem) || names.titles.count(stem);
    const bool is_noun = is_rank && !precedes_name(words, likely, i, names) && !is_called(words, likely, i, names);
    const auto with_case = [&](Case kind) {
      if (!plain) return words[i];
      if (is_noun && kind == Case::kCapitalized) kind = Case::kLower;
      return cased(words[i], is_name ? std::max(kind, Case::kCapitalized) : kind, begins, mixed);
    };
    Case letter_case = is_noun && likely.cases[i] == Case::kCapitalized ? Case::kLower : likely.cases[i];
    std::string word = with_case(letter_case);
    float certainty = plain ? 0.0f : 1.0f;
    for (std::size_t k = 0; plain && k < kNumCases; ++k) {
      if (with_case(static_cast<Case>(k)) == word) certainty += cases[k];
    }
    certainty *= marks[best(marks, kNumMarks)];
    Mark mark = likely_mark(marks, ++sentence_length, is_last ? "" : words[i + 1], context);
    if (is_last) mark = !context.complete ? Mark::kNone : words.size() >= kMinMarked ? end_mark(marks, mark) : mark;
    bool is_held = false;
    if (i < context.held.size() && context.held[i]) {
      const HeldMark& held = *context.held[i];
      const Mark held_mark = held.has_mark && !is_last ? held.mark : mark;
      is_held = held_mark != mark || with_case(held.letter_case) != word;
      mark = held_mark;
      letter_case = held.letter_case;
      word = with_case(letter_case);
    }
    const bool has_mark = mark != Mark::kNone && !(mark == Mark::kPeriod && !word.empty() && word.back() == '.');
    if (has_mark) word += ",.?"[static_cast<std::size_t>(mark) - 1];
    begins = mark == Mark::kPeriod;
    if (mark == Mark::kPeriod || mark == Mark::kQuestion) sentence_length = 0;
    after_title = expects_name(words[i], mark, letter_case, after_title, names);
    shown.words.push_back(std::move(word));
    shown.marks.push_back(mark);
    shown.has_mark.push_back(has_mark);
    shown.cases.push_back(letter_case);
    shown.is_held.push_back(is_held);
    shown.certainties.push_back(certainty);
    shown.name_follows.push_back(after_title);
  }
  return shown;
}

}  // namespace asr_stream
