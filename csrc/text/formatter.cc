#include "text/formatter.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "search/endpointer.h"
#include "text/letter_case.h"

namespace asr_stream {

namespace {

// Number of context words that the network gets for a partial; a final uses all that it can. More words hardly ever
// change a mark or a case.
constexpr std::size_t kPartialContext = 16;

// Removes the words that "scratch that" takes back. Also returns how many earlier utterances it takes back.
std::size_t take_back(std::vector<Word>& words, std::vector<FoundCommand>& found, std::size_t& num_stable,
                      std::size_t& num_known) {
  std::size_t first = 0, num_former = 0, num_gone = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].command->kind != SpokenCommand::Kind::kTakeBack) continue;
    num_former += found[i].first == first;
    first = found[i].last + 1;
    num_gone = i + 1;
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(num_gone));
  for (FoundCommand& each : found) {
    each.first -= first;
    each.last -= first;
  }
  for (std::size_t* count : {&num_stable, &num_known}) *count -= std::min(*count, first);
  return num_former;
}

}  // namespace

std::shared_ptr<const TextOptions> text_options(const Options& given, std::string_view code,
                                                std::shared_ptr<const PunctuationMetadata> punctuation,
                                                const std::vector<WrittenForm>& forms) {
  const Language* known = language(code);
  auto options = std::make_shared<TextOptions>();
  options->formatted = given.text == kFormatted && known;
  options->language = known;
  options->spelling = static_cast<EnglishSpelling>(given.spelling);
  if (given.commands || given.own_commands) {
    options->commands =
        std::make_shared<const Commands>(known ? known->commands : nullptr, given.own_commands.value_or(""));
    options->warnings = options->commands->warnings();
  }
  const auto skip = [&options](const std::vector<std::string>& warnings) {
    options->warnings.insert(options->warnings.end(), warnings.begin(), warnings.end());
  };
  if (given.mask) {
    options->mask = std::make_shared<const WordMask>(*given.mask);
    skip(options->mask->warnings());
  }
  if (known) options->punctuation = std::move(punctuation);
  // Plain text is in lower case, including hotwords.
  const std::vector<WrittenForm> written = given.text == kFormatted ? forms : std::vector<WrittenForm>();
  auto replacements = std::make_shared<const Replacements>(given.replace.value_or(""), written);
  skip(replacements->warnings());
  if (!replacements->empty()) options->replacements = std::move(replacements);
  const bool has_lists = options->commands || options->mask || options->replacements || !options->warnings.empty();
  return known || has_lists ? options : nullptr;
}

void TextFormatter::begin_utterance() {
  words_.clear();
  tokens_.clear();
  shown_.clear();
  in_sentence_ = continues_;
  after_title_ = false;
  last_.clear();
}

void TextFormatter::reset() {
  continues_ = false;
  continued_.clear();
  begin_utterance();
}

const PunctuationRun* TextFormatter::partial(const std::vector<Word>& words, std::size_t num_stable) {
  return format(words, num_stable, false, false);
}

const PunctuationRun* TextFormatter::final(const std::vector<Word>& words, bool is_cut) {
  begin_utterance();  // the words of a final may differ from its partials
  return format(words, words.size(), true, !is_cut);
}

const PunctuationRun* TextFormatter::format(std::vector<Word> words, std::size_t num_stable, bool is_final,
                                            bool complete) {
  run_.reset();
  const Language* known = options_->language;
  std::size_t num_known = num_stable, num_taken_back = 0;
  std::vector<FoundCommand> found;
  if (options_->commands) {
    found = options_->commands->find(words, num_stable, is_final, &num_known);
    num_taken_back = take_back(words, found, num_stable, num_known);
    if (is_final && num_taken_back) {
      for (std::size_t left = num_taken_back; left > 0; --left) {
        continues_ = !continued_.empty() && continued_.back();
        if (!continued_.empty()) continued_.pop_back();
      }
      begin_utterance();
    }
  }
  std::vector<std::string> texts;
  for (const Word& word : words) {
    texts.push_back(known ? to_lower(word.text) : word.text);
    if (known && !options_->formatted) known->spell(texts.back());
  }
  for (const FoundCommand& command : found) {
    for (std::size_t i = command.first; i <= command.last; ++i) texts[i] = kCommandWord;
  }
  if (shown_.empty() && continues_ && !words.empty() && words[0].start_s - last_end_s_ >= kSentencePauseS) {
    in_sentence_ = continues_ = false;
  }
  // Settled words may have changed.
  if (words_.size() > num_stable || !std::equal(words_.begin(), words_.end(), texts.begin())) begin_utterance();
  const std::vector<std::string> unmasked = texts;
  if (options_->mask && options_->mask->longest()) {
    options_->mask->apply(texts);
    if (!is_final) num_known -= std::min(num_known, options_->mask->longest() - 1);  // a phrase may continue
  }

  // Numbers, in the settled words and in the others.
  const std::size_t begin = words_.size();
  draft_ = {std::move(words), tokens_, std::move(found), num_taken_back, 0, 0, is_final, complete};
  std::size_t num_settled = 0;
  if (known && options_->formatted) {
    for (ShownToken& token : known->numbers(texts, begin, num_known, &num_settled)) {
      if (known->respell) known->respell(token.text, options_->spelling);
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
  return known && options_->formatted && options_->punctuation ? ask_network(texts, unmasked) : nullptr;
}

// Case and punctuation of tokens that may still change.
const PunctuationRun* TextFormatter::ask_network(const std::vector<std::string>& texts,
                                                 const std::vector<std::string>& unmasked) {
  const std::size_t before = std::min(options_->punctuation->left_context, kPartialContext);
  draft_.first = shown_.size() > before ? shown_.size() - before : 0;
  PunctuationRun run;
  for (std::size_t i = draft_.first; i < draft_.tokens.size(); ++i) {
    if (draft_tokens().is_command(i)) continue;
    // Masked words are passed unmasked, because stars would change the case of the words beside them.
    const ShownToken& token = draft_.tokens[i];
    const bool masked = token.first == token.last && texts[token.first] != unmasked[token.first];
    run.words.push_back(masked ? unmasked[token.first] : token.text);
    const std::size_t word = token.first;
    run.pauses_s.push_back(word > 0 ? std::max(0.0, draft_.words[word].start_s - draft_.words[word - 1].end_s)
                                    : std::numeric_limits<double>::quiet_NaN());
  }
  if (run.words.empty()) return nullptr;
  run.beginning = draft_.first ? SpecialUnit::kNone : continues_ ? SpecialUnit::kContinues : SpecialUnit::kSentence;
  run.complete = draft_.complete;
  run_ = std::move(run);
  return &*run_;
}

// Whether no later command can change this token, whose text is final.
bool TextFormatter::is_settled(std::size_t token) const {
  const std::size_t behind = options_->commands && !draft_.is_final ? 1 : 0;
  return token + behind < tokens_.size();
}

// Updates the state of the sentence after a command.
void TextFormatter::passes(const SpokenCommand* command) {
  if (!command || !command->changes_sentence()) return;
  in_sentence_ = !command->ends_sentence();
}

ShownText TextFormatter::shown(const std::vector<float>& mark_probs, const std::vector<float>& case_probs) {
  const TokensWithCommands draft = draft_tokens();
  std::vector<std::string> all = shown_;
  if (run_ && !(mark_probs.empty() && case_probs.empty())) {
    punctuate_draft(mark_probs, case_probs, all);
  } else {
    leave_unpunctuated(all);
  }
  shown_.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(draft_.num_shown));

  std::vector<ReplacedWord> words = put_together(draft, all, draft_.num_shown);
  if (options_->replacements) options_->replacements->apply(words);
  ShownText result;
  bool is_stable = !draft_.is_final;
  for (ReplacedWord& word : words) {
    is_stable = is_stable && word.is_stable;
    result.num_stable += is_stable;
    result.words.push_back(std::move(word.word));
  }
  if (draft_.is_final) {
    result.num_taken_back = draft_.num_taken_back;
    if (!draft_.words.empty()) {
      continued_.push_back(continues_);
      continues_ = !draft_.complete;
      last_end_s_ = draft_.words.back().end_s;
      // Spoken punctuation, or its absence, has priority over pauses.
      const SpokenCommand* last = draft.last_change();
      if (last) continues_ = !last->ends_sentence();
      if (options_->commands && !options_->punctuation) continues_ = in_sentence_;
      if (last || (options_->commands && !options_->punctuation)) last_end_s_ = std::numeric_limits<double>::infinity();
    }
    begin_utterance();
  }
  run_.reset();
  return result;
}

// The marks that partials keep, so that they do not flicker: those that the last one shows for the tokens at `places`,
// up to the first other word. Without a new word, nothing changes; else only what the network says about a word once it
// has seen all of its look-ahead. spoken: the commands after the tokens.
std::vector<std::optional<HeldMark>> TextFormatter::held_marks(const std::vector<std::size_t>& places,
                                                               const std::vector<const SpokenCommand*>& spoken) const {
  const TokensWithCommands draft = draft_tokens();
  const auto is_same = [&](std::size_t i) {
    return i < last_.size() && i < draft.tokens.size() && last_[i].text == draft.tokens[i].text &&
           last_[i].command == draft.command(i);
  };
  std::size_t num_same = 0;
  while (is_same(num_same)) ++num_same;
  const bool has_new_word = num_same < std::max(last_.size(), draft.tokens.size());
  std::vector<std::optional<HeldMark>> held(places.size());
  std::size_t num_behind = num_settled(places);
  for (std::size_t j = 0; j < places.size() && places[j] < num_same; ++j) {
    const bool is_decided = is_settled(places[j]) && --num_behind >= options_->punctuation->look_ahead;
    const std::optional<HeldMark>& last = last_[places[j]].mark;
    if (has_new_word && (is_decided || !last || !last->has_mark)) continue;
    if (!spoken[j]) held[j] = last;
  }
  return held;
}

std::size_t TextFormatter::num_settled(const std::vector<std::size_t>& places) const {
  return static_cast<std::size_t>(
      std::count_if(places.begin(), places.end(), [this](std::size_t place) { return is_settled(place); }));
}

// Sets the case and marks of tokens that may still change with the network, except where a mark was spoken.
void TextFormatter::punctuate_draft(const std::vector<float>& mark_probs, const std::vector<float>& case_probs,
                                    std::vector<std::string>& all) {
  if (mark_probs.size() != run_->words.size() * kNumMarks || case_probs.size() != run_->words.size() * kNumCases) {
    throw std::invalid_argument("the punctuation network returned probabilities for a number of words other than " +
                                std::to_string(run_->words.size()));
  }
  const TokensWithCommands draft = draft_tokens();
  std::vector<std::size_t> places;  // tokens that are words and may still change
  std::size_t skipped = 0;
  for (std::size_t i = draft_.first; i < draft.tokens.size(); ++i) {
    if (draft.is_command(i)) continue;
    if (i < shown_.size()) ++skipped;
    else places.push_back(i);
  }
  const auto rest = [skipped](const std::vector<float>& probs, std::size_t width) {
    return std::vector<float>(probs.begin() + static_cast<std::ptrdiff_t>(skipped * width), probs.end());
  };
  std::vector<std::string> words;  // of the run, after masking
  for (const std::size_t place : places) words.push_back(draft.tokens[place].text);
  std::vector<float> marks = rest(mark_probs, kNumMarks);
  const std::vector<float> cases = rest(case_probs, kNumCases);
  std::vector<const SpokenCommand*> spoken;  // after each word
  std::vector<std::string> before_break(words.size());
  for (std::size_t j = 0; j < words.size(); ++j) {
    spoken.push_back(draft.change(places[j] + 1));
    if (!spoken[j]) continue;
    float* probs = &marks[j * kNumMarks];
    const auto likeliest = static_cast<std::size_t>(std::max_element(probs, probs + kNumMarks) - probs);
    if (spoken[j]->kind == SpokenCommand::Kind::kBreak && likeliest) before_break[j] = ",.?"[likeliest - 1];
    const Mark mark = spoken[j]->ends_sentence() ? Mark::kPeriod : spoken[j]->text == "," ? Mark::kComma : Mark::kNone;
    std::fill_n(probs, kNumMarks, 0.0f);
    probs[static_cast<std::size_t>(mark)] = 1.0f;
  }
  const bool in_sentence = in_sentence_;
  for (std::size_t i = shown_.size(); i < draft.tokens.size() && draft.is_command(i); ++i) passes(draft.command(i));
  PunctuationContext context{in_sentence_, draft_.complete, after_title_, options_->language, true};
  if (!draft_.is_final) context.held = held_marks(places, spoken);
  in_sentence_ = in_sentence;
  Punctuated found = punctuate(words, marks, cases, options_->punctuation->mixed, context);
  for (std::size_t j = 0; j < words.size(); ++j) {
    std::string& word = found.words[j];
    if (spoken[j]) {
      if (found.has_mark[j]) word.pop_back();
      const bool has_stop = !word.empty() && word.back() == '.';  // its own
      if (before_break[j] != "." || !has_stop) word += before_break[j];
    }
    // "25," in a date, followed by another mark
    const bool ends_in_comma = !words[j].empty() && words[j].back() == ',';
    if (ends_in_comma && word.size() > words[j].size()) word.erase(words[j].size() - 1, 1);
  }
  all.resize(draft.tokens.size());
  std::vector<LastShown> last;
  for (std::size_t i = 0; i < draft.tokens.size(); ++i) last.push_back({draft.tokens[i].text, draft.command(i), {}});
  for (std::size_t j = 0; j < words.size(); ++j) {
    all[places[j]] = std::move(found.words[j]);
    last[places[j]].mark = {found.marks[j], found.cases[j], j + 1 < words.size()};
  }
  last_ = std::move(last);

  // A token is stable if the network has seen its look-ahead or is certain about what is shown.
  std::size_t num_behind = num_settled(places);
  std::size_t j = 0;
  for (draft_.num_shown = shown_.size(); is_settled(draft_.num_shown); ++draft_.num_shown) {
    if (draft.is_command(draft_.num_shown)) {
      passes(draft.command(draft_.num_shown));
      continue;
    }
    const bool is_open = --num_behind < options_->punctuation->look_ahead && found.certainties[j] < kCertain;
    if (is_open || found.is_held[j]) break;
    in_sentence_ = found.marks[j] != Mark::kPeriod;
    after_title_ = found.name_follows[j];
    ++j;
  }
}

// Without the network, only spoken marks cause capitals.
void TextFormatter::leave_unpunctuated(std::vector<std::string>& all) {
  const TokensWithCommands draft = draft_tokens();
  const bool with_capitals = options_->commands && options_->formatted;
  bool in_sentence = in_sentence_;
  draft_.num_shown = shown_.size();
  last_.clear();
  for (std::size_t i = shown_.size(); i < draft.tokens.size(); ++i) {
    const bool is_command = draft.is_command(i);
    all.push_back(!is_command && with_capitals && !in_sentence_ ? capitalized(draft.tokens[i].text)
                                                                : draft.tokens[i].text);
    if (is_command) passes(draft.command(i));
    else in_sentence_ = true;
    if (!is_settled(i)) continue;
    draft_.num_shown = i + 1;
    in_sentence = in_sentence_;
  }
  if (!draft_.is_final) in_sentence_ = in_sentence;
}

}  // namespace asr_stream
