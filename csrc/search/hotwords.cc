#include "search/hotwords.h"

#include <algorithm>
#include <cstddef>
#include <locale>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "search/g2p.h"
#include "search/spelling.h"

namespace asr_stream {

namespace {

constexpr int kNumPronunciations = 3;     // of a word that no lexicon has
constexpr std::size_t kMaxVariants = 16;  // of a hotword, by the pronunciations of its words

// The number of a word in bytes that are no phone and no space.
constexpr std::size_t kNumberLength = 5;
constexpr char kFirstDigit = '@';

std::string number_bytes(std::int32_t word) {
  std::string bytes;
  for (std::size_t i = 0; i < kNumberLength; ++i) bytes += static_cast<char>(kFirstDigit + (word >> (6 * i) & 63));
  return bytes;
}

bool is_digit(std::uint8_t byte) { return byte >= kFirstDigit && byte < kFirstDigit + 64; }

float read_boost(std::string_view line, std::string_view number) {
  std::istringstream stream{std::string(number)};
  stream.imbue(std::locale::classic());
  float boost = 0.0f;
  if (!(stream >> boost) || !(stream >> std::ws).eof() || !is_allowed(option("hotword_boost"), boost)) {
    throw std::invalid_argument("hotword line '" + std::string(line) + "': the boost behind the colon or tab, '" +
                                std::string(number) + "', must be a number in " + interval(option("hotword_boost")));
  }
  return boost;
}

void raise(std::map<std::string, float>& boosts, const std::string& text, float boost) {
  float& highest = boosts[text];
  highest = std::max(highest, boost);
}

}  // namespace

Hotwords::Hotwords(std::string_view list, const std::vector<std::string>& tokens, float boost, const NgramLm* lm)
    : in_phones_(lm != nullptr) {
  check_option("hotword_boost", boost);
  const Spelling spelling(tokens);
  std::map<std::string, float> boosts;
  for (const std::string_view line : list_lines(list)) {
    const std::size_t separator = line.find_last_of(":\t");
    const float own = separator == std::string_view::npos ? boost : read_boost(line, line.substr(separator + 1));
    raise(boosts, ' ' + spelling.spell(line.substr(0, separator), "hotword"), own);
  }
  if (boosts.empty()) throw std::invalid_argument("the list of hotwords has no words; give one or more, or no list");
  num_hotwords_ = boosts.size();
  build(lm ? pronounced(boosts, *lm) : boosts);
  if (lm) find_endings();
}

// The same hotwords in phones, their boosts for a phone.
std::map<std::string, float> Hotwords::pronounced(const std::map<std::string, float>& boosts, const NgramLm& lm) {
  std::unique_ptr<const G2p> g2p;
  std::vector<char> phone_bytes;  // of the phones of g2p
  const auto pronounce = [&](const std::string& word, std::int32_t number) {
    std::vector<std::string> result;
    if (static_cast<std::size_t>(number) < lm.num_words()) {
      for (const std::string_view bytes : lm.pronunciations(number)) result.emplace_back(bytes);
    }
    if (!result.empty()) return result;
    if (!g2p && !lm.g2p().empty()) {
      g2p = std::make_unique<const G2p>(lm.g2p().data(), lm.g2p().size());
      for (const std::string& phone : g2p->phones()) {
        const auto found = std::find(lm.phones().begin(), lm.phones().end(), phone);
        if (found == lm.phones().end()) {
          throw std::invalid_argument("the language model pronounces words with the phone '" + phone +
                                      "', which it does not name; write it again with `asr lm`");
        }
        phone_bytes.push_back(static_cast<char>(NgramLm::kFirstPhone + (found - lm.phones().begin())));
      }
    }
    if (g2p) {
      for (const G2p::Pronunciation& found : g2p->pronounce(word, kNumPronunciations)) {
        std::string bytes;
        for (const std::int32_t phone : found.phones) bytes += phone_bytes[static_cast<std::size_t>(phone)];
        if (!bytes.empty()) result.push_back(std::move(bytes));
      }
    }
    if (result.empty()) {
      throw std::invalid_argument("hotword '" + word + "' cannot be pronounced: the language model does not know it " +
                                  (g2p ? "and its pronouncing model cannot read it"
                                       : "and has no model that pronounces new words") +
                                  "; write it as known words that are pronounced so");
    }
    return result;
  };

  std::map<std::string, float> result;
  for (const auto& [text, boost] : boosts) {
    std::vector<std::string> variants{""};
    for (const std::string& word : split_words(text)) {
      std::int32_t number = lm.find(word);
      if (number == lm.unknown()) {
        const auto at = std::find(new_words_.begin(), new_words_.end(), word) - new_words_.begin();
        if (at == static_cast<std::ptrdiff_t>(new_words_.size())) new_words_.push_back(word);
        number = static_cast<std::int32_t>(lm.num_words()) + static_cast<std::int32_t>(at);
      }
      std::vector<std::string> longer;
      for (const std::string& bytes : pronounce(word, number)) {  // the likelier come first
        for (const std::string& variant : variants) {
          if (longer.size() < kMaxVariants) longer.push_back(variant + ' ' + bytes + number_bytes(number));
        }
      }
      variants = std::move(longer);
    }
    for (const std::string& variant : variants) {
      std::size_t num_phones = 0;
      for (const char byte : variant) num_phones += num_units(byte);
      raise(result, variant, boost * static_cast<float>(num_letters(text)) / static_cast<float>(num_phones));
    }
  }
  return result;
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

// The numbers that stand behind each node, those of its suffixes among them.
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
