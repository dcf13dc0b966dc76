#include "search/hotwords.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>

#include "search/hotword_list.h"
#include "search/pronouncer.h"
#include "search/spelling.h"
#include "text/letter_case.h"

namespace asr_stream {

namespace {

constexpr std::size_t kMaxVariants = 16;  // of a hotword, by the pronunciations of its words

// The number of a word in bytes that are neither a phone nor a space.
constexpr std::size_t kNumberLength = 5;
constexpr char kFirstDigit = '@';

std::string number_bytes(std::int32_t word) {
  std::string bytes;
  for (std::size_t i = 0; i < kNumberLength; ++i) bytes += static_cast<char>(kFirstDigit + (word >> (6 * i) & 63));
  return bytes;
}

bool is_digit(std::uint8_t byte) { return byte >= kFirstDigit && byte < kFirstDigit + 64; }

void raise(std::map<std::string, float>& boosts, const std::string& text, float boost) {
  float& highest = boosts[text];
  highest = std::max(highest, boost);
}

// The words of a hotword as they are spoken: a hyphen that no token writes is a space.
std::string spoken(const Spelling& spelling, const std::string& written) {
  try {
    return spelling.spell(written, "hotword");
  } catch (const std::invalid_argument& error) {
    std::string apart = written;
    std::replace(apart.begin(), apart.end(), '-', ' ');
    try {
      if (apart != written) return spelling.spell(apart, "hotword");
    } catch (const std::invalid_argument&) {  // the first error names the word as it was given
    }
    throw std::invalid_argument(std::string(error.what()) +
                                ", or give the words that it sounds like: GPT-4 = g p t four");
  }
}

}  // namespace

Hotwords::Hotwords(std::string_view list, const std::vector<std::string>& tokens, float boost, const NgramLm* lm)
    : in_phones_(lm != nullptr) {
  check_option("hotword_boost", boost);
  const Spelling spelling(tokens);
  std::unique_ptr<Pronouncer> pronouncer;
  if (lm) pronouncer = std::make_unique<Pronouncer>(*lm);
  std::map<std::string, float> boosts;  // by letters or phones
  std::set<std::string> used;
  for (const HotwordLine& line : read_hotwords(list, boost)) {
    std::string fault;  // the first one
    bool is_used = false;
    const auto attempt = [&](auto add) {
      try {
        add();
        is_used = true;
      } catch (const std::invalid_argument& error) {
        if (fault.empty()) fault = error.what();
      }
    };
    const auto add = [&](const std::string& phrase) {
      if (!lm) return raise(boosts, ' ' + phrase, line.boost);
      raise_pronounced(boosts, *pronouncer, *lm, phrase, line.boost);
    };
    std::string own = line.written;  // as it is recognized
    attempt([&] {
      own = spoken(spelling, line.written);
      add(own);
    });
    const std::string own_fault = std::exchange(fault, "");
    if (!lm && !is_used) own.clear();
    if (line.has_own_spelling() && !own.empty()) forms_.emplace_back(to_lower(own), line.written);
    for (const std::string& alias : line.aliases) {
      const bool is_one_word = lm && split_words(own).size() == 1, is_phrase = split_words(alias).size() > 1;
      attempt([&] {
        const std::string words = spoken(spelling, alias);
        if (is_one_word) raise_pronounced(boosts, *pronouncer, *lm, words, line.boost, own);
        if (is_one_word && !is_phrase) return;  // the words around tell it from the alias itself
        add(words);
        forms_.emplace_back(to_lower(words), line.written);
      });
    }
    if (is_used) used.insert(own.empty() ? line.written : own);
    if (!is_used && fault.empty()) fault = own_fault;  // its aliases are enough
    if (!fault.empty()) warnings_.push_back("hotword line '" + std::string(line.line) + "': " + fault);
    if (!fault.empty() && first_fault_.empty()) first_fault_ = fault;
  }
  if (boosts.empty()) {
    throw std::invalid_argument(!first_fault_.empty()
                                    ? first_fault_
                                    : "the list of hotwords has no words; give one or more, or no list");
  }
  num_hotwords_ = used.size();
  build(boosts);
  if (lm) find_endings();
}

// The number of a word, which may be new.
std::int32_t Hotwords::number_of(const NgramLm& lm, const std::string& word) {
  const std::int32_t number = lm.find(word);
  if (number != lm.unknown()) return number;
  const auto at = std::find(new_words_.begin(), new_words_.end(), word) - new_words_.begin();
  if (at == static_cast<std::ptrdiff_t>(new_words_.size())) new_words_.push_back(word);
  return static_cast<std::int32_t>(lm.num_words()) + static_cast<std::int32_t>(at);
}

// Adds every pronunciation of `text`, or nothing where a word has none. word: the word of which `text` is an alias, for
// one word boundary and one number around all of it; empty: each word of `text` has its own. boost: for each letter.
void Hotwords::raise_pronounced(std::map<std::string, float>& boosts, Pronouncer& pronouncer, const NgramLm& lm,
                                const std::string& text, float boost, const std::string& word) {
  const bool is_alias = !word.empty();
  const std::vector<std::string> parts = split_words(text);
  std::vector<std::vector<std::string>> pronunciations;
  for (const std::string& part : parts) pronunciations.push_back(pronouncer.pronounce(part));
  std::vector<std::string> variants{""};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string begin = is_alias && i > 0 ? "" : " ";
    const bool ends_word = !is_alias || i + 1 == parts.size();
    const std::string end = ends_word ? number_bytes(number_of(lm, is_alias ? word : parts[i])) : "";
    std::vector<std::string> longer;
    for (const std::string& bytes : pronunciations[i]) {  // the likelier come first
      for (const std::string& variant : variants) {
        if (longer.size() < kMaxVariants) longer.push_back(variant + begin + bytes + end);
      }
    }
    variants = std::move(longer);
  }
  const auto letters = static_cast<float>(num_letters(is_alias ? word : text));
  for (const std::string& variant : variants) {
    std::size_t num_phones = 0;
    for (const char byte : variant) num_phones += num_units(byte);
    raise(boosts, variant, boost * letters / static_cast<float>(num_phones));
  }
}

std::size_t Hotwords::num_units(char byte) const {
  if (in_phones_) return static_cast<std::uint8_t>(byte) >= NgramLm::kFirstPhone ? 1 : 0;
  return num_letters({&byte, 1});
}

void Hotwords::build(const std::map<std::string, float>& boosts) {
  std::vector<std::string_view> texts;
  std::vector<float> values;
  for (const auto& [text, value] : boosts) {
    texts.push_back(text);
    values.push_back(value);
    highest_boost_ = std::max(highest_boost_, value);
  }
  spellings_ = std::make_unique<const Lexicon>(texts, values.data());
  begin_ = spellings_->child(Lexicon::kRoot, ' ');
  nodes_.assign(spellings_->num_nodes(), {Lexicon::kRoot, 0.0f, 0.0f});
  std::vector<float> letters(nodes_.size(), 0.0f);
  // Nodes lie breadth first: what a suffix needs is there, because it is shorter.
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(nodes_.size()); ++node) {
    for (std::int32_t i = 0; i < spellings_->num_children(node); ++i) {
      const std::int32_t child = spellings_->first_child(node) + i;
      const std::uint8_t byte = spellings_->byte(child);
      const auto index = static_cast<std::size_t>(child);
      letters[index] = letters[static_cast<std::size_t>(node)] + static_cast<float>(num_units(static_cast<char>(byte)));
      Node& next = nodes_[index];
      if (node != Lexicon::kRoot) next.longest_suffix = advance(at(node).longest_suffix, byte);
      const std::int32_t word = spellings_->word(child);
      next.under_way = spellings_->best_log_prob(child) * letters[index];
      next.complete = at(next.longest_suffix).complete;
      if (word != Lexicon::kNone) next.complete += values[static_cast<std::size_t>(word)] * letters[index];
    }
  }
}

// The numbers that follow each node, including those of its suffixes.
void Hotwords::find_endings() {
  endings_.resize(nodes_.size());
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    std::vector<std::pair<std::int32_t, std::uint32_t>> partial{{static_cast<std::int32_t>(node), 0}};
    for (std::size_t digit = 0; digit < kNumberLength; ++digit) {
      std::vector<std::pair<std::int32_t, std::uint32_t>> longer;
      for (const auto& [start, number] : partial) {
        for (std::int32_t i = 0; i < spellings_->num_children(start); ++i) {
          const std::int32_t child = spellings_->first_child(start) + i;
          const std::uint8_t byte = spellings_->byte(child);
          if (!is_digit(byte)) continue;
          longer.emplace_back(child, number | static_cast<std::uint32_t>(byte - kFirstDigit) << (6 * digit));
        }
      }
      partial = std::move(longer);
    }
    if (!node) continue;
    std::vector<std::int32_t>& words = endings_[node];
    words = endings_[static_cast<std::size_t>(at(static_cast<std::int32_t>(node)).longest_suffix)];
    for (const auto& [end, number] : partial) {
      const auto word = static_cast<std::int32_t>(number);
      if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
  }
}

std::int32_t Hotwords::identify(std::int32_t node, std::int32_t word) const noexcept {
  for (std::size_t i = 0; i < kNumberLength && node != Lexicon::kRoot; ++i) {
    node = advance(node, static_cast<std::uint8_t>(kFirstDigit + (word >> (6 * i) & 63)));
  }
  return node;
}

std::int32_t Hotwords::advance(std::int32_t node, std::uint8_t byte) const noexcept {
  for (;;) {
    const std::int32_t child = spellings_->child(node, byte);
    if (child != Lexicon::kNone) return child;
    if (node == Lexicon::kRoot) return node;
    node = at(node).longest_suffix;
  }
}

}  // namespace asr_stream
