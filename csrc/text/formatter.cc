#include "text/formatter.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "search/spelling.h"
#include "text/punctuation.h"

namespace asr_stream {

namespace {

std::string joined(const std::vector<std::string>& words, std::size_t first, std::size_t count) {
  std::string text = words[first];
  for (std::size_t i = first + 1; i < first + count; ++i) text += " " + words[i];
  return text;
}

// In English the word "I", alone and in "I'm", has a capital wherever it stands.
void capitalize_i(std::string& word) {
  if (word == "i" || word.rfind("i'", 0) == 0) word[0] = 'I';
}

bool writes_english(const std::vector<std::string>& tokens) {
  for (const std::string& text : token_texts(tokens)) {
    for (const char c : text) {
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!is_letter && c != '\'' && c != ' ') return false;
    }
  }
  return true;
}

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

std::string plain_case(const std::string& word) {
  std::string result = to_lower(word);
  capitalize_i(result);
  return result;
}

WordMask::WordMask(std::string_view list) {
  for (const std::string_view line : list_lines(list)) {
    std::string phrase;
    std::size_t num_words = 0;
    for (std::size_t begin = 0; begin < line.size();) {
      const std::size_t end = std::min(line.find_first_of(" \t", begin), line.size());
      if (end > begin) {
        phrase += (num_words ? " " : "") + to_lower(line.substr(begin, end - begin));
        ++num_words;
      }
      begin = end + 1;
    }
    phrases_.insert(phrase);
    longest_ = std::max(longest_, num_words);
  }
}

void WordMask::apply(std::vector<std::string>& words) const {
  const std::vector<std::string> given = words;
  for (std::size_t i = 0; i < given.size();) {
    std::size_t n = std::min(longest_, given.size() - i);
    while (n > 0 && !phrases_.count(joined(given, i, n))) --n;
    for (std::size_t k = i; k < i + n; ++k) words[k] = std::string(num_letters(given[k]), '*');
    i += std::max<std::size_t>(n, 1);
  }
}

std::shared_ptr<const TextOptions> text_options(bool formatted, const std::vector<std::string>& tokens,
                                                const std::string* mask, TextOptions::Punctuate punctuate,
                                                std::size_t look_ahead, std::size_t left_context) {
  const bool is_english = writes_english(tokens);
  if (!is_english && !mask) return nullptr;
  auto options = std::make_shared<TextOptions>();
  options->formatted = formatted && is_english;
  options->is_english = is_english;
  if (mask) options->mask = std::make_shared<const WordMask>(*mask);
  options->punctuate = std::move(punctuate);
  options->look_ahead = look_ahead;
  options->left_context = left_context;
  return options;
}

void TextFormatter::begin_utterance() {
  words_.clear();
  tokens_.clear();
  shown_.clear();
}

void TextFormatter::reset() {
  begin_utterance();
  continues_ = false;
}

ShownText TextFormatter::partial(const std::vector<Word>& words, std::size_t num_stable) {
  return format(words, num_stable, false, false);
}

ShownText TextFormatter::final(const std::vector<Word>& words, bool is_cut) {
  begin_utterance();  // a final may have other words than its partials
  ShownText text = format(words, words.size(), true, !is_cut);
  begin_utterance();
  if (!words.empty()) continues_ = is_cut;
  return text;
}

ShownText TextFormatter::format(const std::vector<Word>& words, std::size_t num_stable, bool is_final, bool complete) {
  std::vector<std::string> heard;
  for (const Word& word : words) {
    const bool is_plain = !options_->formatted;
    heard.push_back(!options_->is_english ? word.text : is_plain ? plain_case(word.text) : to_lower(word.text));
  }
  // What stood may have been taken back.
  if (words_.size() > num_stable || !std::equal(words_.begin(), words_.end(), heard.begin())) begin_utterance();
  const std::vector<std::string> unmasked = heard;
  std::size_t num_known = num_stable;
  if (options_->mask && options_->mask->longest()) {
    std::vector<std::string> small;
    for (const std::string& word : heard) small.push_back(to_lower(word));
    const std::vector<std::string> before = small;
    options_->mask->apply(small);
    for (std::size_t i = 0; i < small.size(); ++i) {
      if (small[i] != before[i]) heard[i] = small[i];
    }
    if (!is_final) num_known -= std::min(num_known, options_->mask->longest() - 1);  // a phrase may go on
  }

  // Numbers: what is settled once and for all, and what is not.
  const std::size_t begin = words_.size();
  const auto add = [&](std::vector<ShownToken>& tokens, std::size_t first, std::size_t last) {
    const std::vector<std::string> part(heard.begin() + static_cast<std::ptrdiff_t>(first),
                                        heard.begin() + static_cast<std::ptrdiff_t>(last));
    if (!options_->formatted) {
      for (std::size_t i = first; i < last; ++i) tokens.push_back({heard[i], i, i});
      return;
    }
    for (ShownToken& token : format_numbers(part)) {
      capitalize_i(token.text);
      tokens.push_back({std::move(token.text), token.first + first, token.last + first});
    }
  };
  std::size_t settled = std::max(num_known, begin);
  if (options_->formatted && !is_final) {
    const std::vector<std::string> stable(heard.begin() + static_cast<std::ptrdiff_t>(begin),
                                          heard.begin() + static_cast<std::ptrdiff_t>(settled));
    settled = begin + num_settled_words(stable);
  }
  add(tokens_, begin, settled);
  words_.assign(unmasked.begin(), unmasked.begin() + static_cast<std::ptrdiff_t>(settled));
  std::vector<ShownToken> tokens = tokens_;
  add(tokens, settled, words.size());

  // Case and punctuation of what is not shown for good.
  std::vector<std::string> shown = shown_;
  std::size_t num_shown = tokens_.size();  // for good
  if (options_->formatted && options_->punctuate) {
    if (!is_final) num_shown -= std::min(num_shown, options_->look_ahead);
    num_shown = std::max(num_shown, shown_.size());
    // So that the last word that is shown, whose mark says how the next one begins, has what it depends on, too.
    const std::size_t before = options_->left_context + 2;
    const std::size_t first = shown_.size() > before ? shown_.size() - before : 0;
    std::vector<std::string> given;
    for (std::size_t i = first; i < tokens.size(); ++i) given.push_back(tokens[i].text);
    if (!given.empty()) {
      const auto beginning = first      ? TextOptions::Beginning::kWithin
                             : continues_ ? TextOptions::Beginning::kContinues
                                          : TextOptions::Beginning::kSentence;
      const std::vector<std::string> found =
          options_->punctuate(given, pauses(words, tokens, first), beginning, complete);
      for (std::size_t i = shown.size(); i < tokens.size(); ++i) {
        std::string text = found.at(i - first);
        const std::string& own = tokens[i].text;  // "25," of a date, with a mark behind it
        if (!own.empty() && own.back() == ',' && text.size() > own.size()) text.erase(own.size() - 1, 1);
        shown.push_back(std::move(text));
      }
    }
  } else {
    for (std::size_t i = shown.size(); i < tokens.size(); ++i) shown.push_back(tokens[i].text);
  }
  shown_.assign(shown.begin(), shown.begin() + static_cast<std::ptrdiff_t>(num_shown));

  ShownText result;
  result.num_stable = is_final ? 0 : num_shown;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    Word word{std::move(shown[i]), words[tokens[i].first].start_s, words[tokens[i].last].end_s,
              words[tokens[i].first].confidence};
    for (std::size_t k = tokens[i].first; k <= tokens[i].last; ++k) {
      word.confidence = std::min(word.confidence, words[k].confidence);
    }
    result.words.push_back(std::move(word));
  }
  return result;
}

}  // namespace asr_stream
