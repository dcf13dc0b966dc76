#include "text/formatter.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include "text/letter_case.h"

namespace asr_stream {

namespace {

// Words before a word that the network is given for a partial; a final has all that it can use. With so many, one of
// 2151 partials of read speech had another mark or case than with all 48 before it; with 12, 15.
constexpr std::size_t kPartialContext = 16;

// A word is stable before the network has seen all words that it can see behind it where its mark and case are as
// probable as this.
// Of the words that partials call stable the final has 0.3 % otherwise (benchmarks/formatting.py); with 0.8, 0.8 %, and
// a word is stable half a word sooner. Dictation cannot take back what it has typed.
constexpr float kCertain = 0.9f;

// Silence after a forced cut, in seconds, that ends the sentence.
constexpr double kSentencePause = 0.5;

// The pause before each token.
std::vector<double> pauses(const std::vector<Word>& words, const std::vector<ShownToken>& tokens, std::size_t first) {
  std::vector<double> result;
  for (std::size_t i = first; i < tokens.size(); ++i) {
    const std::size_t word = tokens[i].first;
    const bool is_known = word > 0;
    result.push_back(is_known ? std::max(0.0, words[word].start_s - words[word - 1].end_s)
                              : std::numeric_limits<double>::quiet_NaN());
  }
  return result;
}

}  // namespace

std::shared_ptr<const TextOptions> text_options(bool formatted, std::string_view language_code,
                                                const std::string* mask,
                                                std::shared_ptr<const PunctuationMetadata> punctuation) {
  const Language* known = language(language_code);
  if (!known && !mask) return nullptr;
  auto options = std::make_shared<TextOptions>();
  options->formatted = formatted && known;
  options->language = known;
  if (mask) options->mask = std::make_shared<const WordMask>(*mask);
  if (known) options->punctuation = std::move(punctuation);
  return options;
}

void TextFormatter::begin_utterance() {
  words_.clear();
  tokens_.clear();
  shown_.clear();
  in_sentence_ = continues_;
  after_title_ = false;
  sentence_length_ = 0;
}

void TextFormatter::reset() {
  continues_ = false;
  begin_utterance();
}

const PunctuationRun* TextFormatter::partial(const std::vector<Word>& words, std::size_t num_stable) {
  return format(words, num_stable, false, false);
}

const PunctuationRun* TextFormatter::final(const std::vector<Word>& words, bool is_cut) {
  begin_utterance();  // a final may have other words than its partials
  return format(words, words.size(), true, !is_cut);
}

const PunctuationRun* TextFormatter::format(const std::vector<Word>& words, std::size_t num_stable, bool is_final,
                                            bool complete) {
  const Language* known = options_->language;
  std::vector<std::string> texts;
  for (const Word& word : words) {
    texts.push_back(known ? to_lower(word.text) : word.text);
    if (known && !options_->formatted) known->spell(texts.back());
  }
  if (shown_.empty() && continues_ && !words.empty() && words[0].start_s - last_end_s_ >= kSentencePause) {
    in_sentence_ = continues_ = false;
  }
  // Settled words may have changed since.
  if (words_.size() > num_stable || !std::equal(words_.begin(), words_.end(), texts.begin())) begin_utterance();
  const std::vector<std::string> unmasked = texts;
  std::size_t num_known = num_stable;
  if (options_->mask && options_->mask->longest()) {
    options_->mask->apply(texts);
    if (!is_final) num_known -= std::min(num_known, options_->mask->longest() - 1);  // a phrase may go on
  }

  // Numbers: what is settled once and for all, and what is not.
  const std::size_t begin = words_.size();
  draft_ = {words, tokens_, 0, 0, is_final, complete};
  std::size_t num_settled = 0;
  if (known && options_->formatted) {
    for (ShownToken& token : known->numbers(texts, begin, num_known, &num_settled)) {
      known->spell(token.text);
      draft_.tokens.push_back(std::move(token));
    }
  } else {
    for (std::size_t i = begin; i < texts.size(); ++i) draft_.tokens.push_back({texts[i], i, i});
    num_settled = std::max(num_known, begin) - begin;
  }
  num_settled = is_final ? draft_.tokens.size() : tokens_.size() + num_settled;
  tokens_.assign(draft_.tokens.begin(), draft_.tokens.begin() + static_cast<std::ptrdiff_t>(num_settled));
  const std::size_t num_words = tokens_.empty() ? 0 : tokens_.back().last + 1;
  words_.assign(unmasked.begin(), unmasked.begin() + static_cast<std::ptrdiff_t>(num_words));

  // Case and punctuation of what is not shown for good.
  run_.reset();
  if (!known || !options_->formatted || !options_->punctuation || draft_.tokens.empty()) return nullptr;
  const std::size_t before = std::min(options_->punctuation->left_context, kPartialContext);
  draft_.first = shown_.size() > before ? shown_.size() - before : 0;
  run_.emplace();
  for (std::size_t i = draft_.first; i < draft_.tokens.size(); ++i) run_->words.push_back(draft_.tokens[i].text);
  run_->pauses_s = pauses(words, draft_.tokens, draft_.first);
  run_->beginning = draft_.first ? SpecialUnit::kNone : continues_ ? SpecialUnit::kContinues : SpecialUnit::kSentence;
  run_->complete = complete;
  return &*run_;
}

ShownText TextFormatter::shown(const std::vector<float>& mark_probs, const std::vector<float>& case_probs) {
  const std::vector<ShownToken>& tokens = draft_.tokens;
  std::vector<std::string> all = shown_;
  if (run_) {
    if (mark_probs.size() != run_->words.size() * kNumMarks || case_probs.size() != run_->words.size() * kNumCases) {
      throw std::invalid_argument("the network for punctuation answers for another number of words than " +
                                  std::to_string(run_->words.size()));
    }
    // Of what is not shown as yet.
    const std::size_t skipped = shown_.size() - draft_.first;
    const auto rest = [skipped](const std::vector<float>& probs, std::size_t width) {
      return std::vector<float>(probs.begin() + static_cast<std::ptrdiff_t>(skipped * width), probs.end());
    };
    const std::vector<std::string> words(run_->words.begin() + static_cast<std::ptrdiff_t>(skipped), run_->words.end());
    const std::vector<float> marks = rest(mark_probs, kNumMarks);
    const std::vector<float> cases = rest(case_probs, kNumCases);
    const PunctuationContext context{in_sentence_, draft_.complete, after_title_, sentence_length_,
                                     options_->language};
    Punctuated found = punctuate(words, marks, cases, options_->punctuation->mixed, context);
    for (std::size_t i = 0; i < words.size(); ++i) {  // "25," of a date, with a mark behind it
      const bool ends_in_comma = !words[i].empty() && words[i].back() == ',';
      if (ends_in_comma && found.words[i].size() > words[i].size()) found.words[i].erase(words[i].size() - 1, 1);
    }
    // What stays: tokens that the network has seen enough of, or is sure of.
    std::size_t num_new = 0;
    const auto stays = [&](std::size_t i) {
      return i < tokens_.size() && (i + options_->punctuation->look_ahead < tokens_.size() ||
                                    found.certainties[i - shown_.size()] >= kCertain);
    };
    while (stays(shown_.size() + num_new)) ++num_new;
    draft_.num_shown = shown_.size() + num_new;
    for (std::size_t i = 0; i < num_new; ++i) {
      in_sentence_ = found.marks[i] != Mark::kPeriod;
      after_title_ = found.name_follows[i];
      sentence_length_ = in_sentence_ && found.marks[i] != Mark::kQuestion ? sentence_length_ + 1 : 0;
    }
    all.insert(all.end(), std::make_move_iterator(found.words.begin()),
               std::make_move_iterator(found.words.end()));
  } else {
    for (std::size_t i = all.size(); i < tokens.size(); ++i) all.push_back(tokens[i].text);
    draft_.num_shown = tokens_.size();
  }
  shown_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(draft_.num_shown));

  ShownText result;
  result.num_stable = draft_.is_final ? 0 : draft_.num_shown;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const ShownToken& token = tokens[i];
    Word word{std::move(all[i]), draft_.words[token.first].start_s, draft_.words[token.last].end_s,
              draft_.words[token.first].confidence};
    for (std::size_t k = token.first; k <= token.last; ++k) {
      word.confidence = std::min(word.confidence, draft_.words[k].confidence);
    }
    result.words.push_back(std::move(word));
  }
  if (draft_.is_final) {
    if (!draft_.words.empty()) {
      continues_ = !draft_.complete;
      last_end_s_ = draft_.words.back().end_s;
    }
    begin_utterance();
  }
  run_.reset();
  return result;
}

}  // namespace asr_stream
