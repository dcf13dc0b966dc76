#include "search/hotwords.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <locale>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "search/g2p.h"
#include "search/spelling.h"
#include "text/letter_case.h"
#include "utf8.h"

namespace asr_stream {

namespace {

constexpr std::size_t kMaxVariants = 16;  // per hotword; combinations of the pronunciations of its words

void append(std::vector<std::int32_t>& symbols, const std::string& bytes) {
  for (const char byte : bytes) symbols.push_back(static_cast<std::uint8_t>(byte));
}

void raise(std::map<std::vector<std::int32_t>, float>& boosts, const std::vector<std::int32_t>& symbols, float boost) {
  float& highest = boosts[symbols];
  highest = std::max(highest, boost);
}

// The words of a hotword as they are spoken. A hyphen that no token contains becomes a space.
std::string spoken(const Spelling& spelling, const std::string& written) {
  try {
    return spelling.spell(written, "hotword");
  } catch (const std::invalid_argument& error) {
    std::string apart = written;
    std::replace(apart.begin(), apart.end(), '-', ' ');
    try {
      if (apart != written) return spelling.spell(apart, "hotword");
    } catch (const std::invalid_argument&) {  // the first error names the word as the user wrote it
    }
    throw std::invalid_argument(std::string(error.what()) +
                                ", or give the words that it sounds like: GPT-4 = g p t four");
  }
}

float read_boost(std::string_view line, std::string_view number) {
  std::istringstream stream{std::string(number)};
  stream.imbue(std::locale::classic());
  float boost = 0.0f;
  if (!(stream >> boost) || !(stream >> std::ws).eof() || !is_allowed(option("hotword_boost"), boost)) {
    throw std::invalid_argument("hotword line '" + std::string(line) + "': the boost after the colon or tab, '" +
                                std::string(number) + "', must be a number in " + interval(option("hotword_boost")));
  }
  return boost;
}

std::string one_spaced(std::string_view text) {
  const std::vector<std::string> words = split_words(text);
  return joined(words, 0, words.size());
}

}  // namespace

bool HotwordLine::has_own_spelling() const {
  const auto is_special = [](unsigned char byte) {  // a plain char is signed on some machines only
    return (byte >= '!' && byte < 'a' && byte != '\'') || (byte > 'z' && byte < 0x80);
  };
  return std::any_of(written.begin(), written.end(), is_special) || written != to_lower(written);
}

HotwordLine read_hotword(std::string_view line, float boost) {
  const std::size_t separator = line.find_last_of(":\t");
  const bool has_boost = separator != std::string_view::npos;
  HotwordLine hotword{line, "", {}, has_boost ? read_boost(line, line.substr(separator + 1)) : boost};
  const std::string_view words = line.substr(0, separator);
  const std::size_t sign = std::min(words.find('='), words.size());
  hotword.written = one_spaced(words.substr(0, sign));
  for (std::size_t at = sign; at < words.size();) {
    const std::size_t end = std::min(words.find(',', at + 1), words.size());
    hotword.aliases.push_back(one_spaced(words.substr(at + 1, end - at - 1)));
    at = end;
  }
  const auto refuse = [line](const std::string& fault) {
    throw std::invalid_argument("hotword line '" + std::string(line) + "' " + fault);
  };
  const bool has_gap = std::find(hotword.aliases.begin(), hotword.aliases.end(), "") != hotword.aliases.end();
  if (hotword.written.empty() || has_gap) refuse("has an empty place; write it as Nguyen = win, new yen");
  if (hotword.aliases.size() > kMaxAliases) {
    refuse("has " + std::to_string(hotword.aliases.size()) + " aliases; it may have " + std::to_string(kMaxAliases));
  }
  std::size_t longest = split_words(hotword.written).size();
  for (const std::string& alias : hotword.aliases) longest = std::max(longest, split_words(alias).size());
  if (longest > kMaxHotwordWords) {
    refuse("has a phrase of " + std::to_string(longest) + " words; it may have " + std::to_string(kMaxHotwordWords));
  }
  return hotword;
}

Hotwords::Hotwords(std::string_view list, const std::vector<std::string>& tokens, float boost, const NgramLm* lm)
    : in_phones_(lm != nullptr) {
  check_option("hotword_boost", boost);
  if (list_lines(list).empty()) {
    throw std::invalid_argument("the list of hotwords has no words; give one or more, or no list");
  }
  const Spelling spelling(tokens);
  std::unique_ptr<Pronouncer> pronouncer;
  if (lm) pronouncer = std::make_unique<Pronouncer>(*lm);
  Boosts boosts;
  std::set<std::string> used;
  use_lines(list, "hotword", warnings_, [&](std::string_view text) {
    const HotwordLine line = read_hotword(text, boost);
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
      if (lm) return raise_pronounced(boosts, *pronouncer, *lm, phrase, line.boost);
      Symbols symbols{' '};
      append(symbols, phrase);
      raise(boosts, symbols, line.boost);
    };
    std::string own = line.written;  // the words that are recognized
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
        if (is_one_word && !is_phrase) return;  // the context tells the hotword and the alias apart
        add(words);
        forms_.emplace_back(to_lower(words), line.written);
      });
    }
    if (is_used) used.insert(own.empty() ? line.written : own);
    if (!is_used && fault.empty()) fault = own_fault;  // an alias can be used instead
    if (!fault.empty()) throw std::invalid_argument("hotword line '" + std::string(line.line) + "': " + fault);
  });
  num_hotwords_ = used.size();
  build(boosts);
}

// The id of a word, which is new if the language model lacks it.
std::int32_t Hotwords::number_of(const NgramLm& lm, const std::string& word) {
  const std::int32_t number = lm.find(word);
  if (number != lm.unknown()) return number;
  const auto next = static_cast<std::int32_t>(lm.num_words() + new_words_.size());
  const auto [found, is_new] = new_ids_.try_emplace(word, next);
  if (is_new) new_words_.push_back(word);
  return found->second;
}

// Adds every pronunciation of `text`, or nothing if a word has none. word: the word of which `text` is an alias; then
// all of `text` has one word boundary and one word id. If `word` is empty, each word of `text` has its own. boost: per
// letter.
void Hotwords::raise_pronounced(Boosts& boosts, Pronouncer& pronouncer, const NgramLm& lm, const std::string& text,
                                float boost, const std::string& word) {
  const bool is_alias = !word.empty();
  const std::vector<std::string> parts = split_words(text);
  std::vector<std::vector<std::string>> pronunciations;
  for (const std::string& part : parts) pronunciations.push_back(pronouncer.pronounce(part, "hotword"));
  std::vector<Symbols> variants(1);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Symbols end;
    if (!is_alias || i + 1 == parts.size()) end.push_back(~number_of(lm, is_alias ? word : parts[i]));
    std::vector<Symbols> longer;
    for (const std::string& bytes : pronunciations[i]) {  // the most likely come first
      for (const Symbols& variant : variants) {
        if (longer.size() == kMaxVariants) break;
        Symbols& symbols = longer.emplace_back(variant);
        if (!is_alias || i == 0) symbols.push_back(' ');
        append(symbols, bytes);
        symbols.insert(symbols.end(), end.begin(), end.end());
      }
    }
    variants = std::move(longer);
  }
  const auto letters = static_cast<float>(num_letters(is_alias ? word : text));
  for (const Symbols& variant : variants) {
    std::size_t num_phones = 0;
    for (const std::int32_t symbol : variant) num_phones += num_units(symbol);
    raise(boosts, variant, boost * letters / static_cast<float>(num_phones));
  }
}

std::size_t Hotwords::num_units(std::int32_t symbol) const {
  if (in_phones_) return symbol >= NgramLm::kFirstPhone ? 1 : 0;
  const auto byte = static_cast<char>(symbol);
  return num_letters({&byte, 1});
}

// The last child of `node`. Adds a child if the last one has another symbol.
std::int32_t Hotwords::last_child(std::int32_t node, std::int32_t symbol) {
  const auto size = static_cast<std::int32_t>(nodes_.size());
  Node& parent = at(node);
  if (parent.num_children == 0) parent.first_child = size;
  const std::int32_t last = parent.first_child + parent.num_children - 1;
  if (parent.num_children > 0 && at(last).symbol == symbol) return last;
  const std::int32_t suffix = node == kRoot ? kRoot : advance(parent.longest_suffix, symbol);
  ++parent.num_children;
  const float length = parent.length + static_cast<float>(num_units(symbol));
  nodes_.push_back({symbol, suffix, 0, 0, length, 0.0f, at(suffix).complete});
  return size;
}

void Hotwords::build(const Boosts& boosts) {
  struct Unread {
    const Symbols& symbols;
    float boost;
    std::size_t depth;
    std::int32_t node;
  };
  std::deque<Unread> unread;
  for (const auto& [symbols, boost] : boosts) {
    unread.push_back({symbols, boost, 0, kRoot});
    highest_boost_ = std::max(highest_boost_, boost);
  }
  nodes_.push_back({});
  // Adds one symbol of each spelling per round, in sorted order. So children are stored in order, and the longest
  // suffix of a node already exists, because it is shorter.
  for (; !unread.empty(); unread.pop_front()) {
    const auto& [symbols, boost, depth, parent] = unread.front();
    const std::int32_t child = last_child(parent, symbols[depth]);
    Node& node = at(child);
    node.under_way = std::max(node.under_way, boost * node.length);
    if (depth + 1 == symbols.size()) {
      node.complete += boost * node.length;
    } else {
      unread.push_back({symbols, boost, depth + 1, child});
    }
  }
  begin_ = advance(kRoot, ' ');
  endings_.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    std::vector<std::int32_t>& words = endings_[i];
    words = endings(node.longest_suffix);  // the suffix is shorter, so its words are complete
    for (std::int32_t child = node.first_child; child < node.first_child + node.num_children; ++child) {
      const std::int32_t word = ~at(child).symbol;
      if (word >= 0 && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
  }
}

std::int32_t Hotwords::advance(std::int32_t node, std::int32_t symbol) const noexcept {
  for (;; node = at(node).longest_suffix) {
    const Node* const first = nodes_.data() + at(node).first_child;
    const Node* const end = first + at(node).num_children;
    const Node* const found = std::lower_bound(
        first, end, symbol, [](const Node& child, std::int32_t wanted) { return child.symbol < wanted; });
    if (found != end && found->symbol == symbol) return static_cast<std::int32_t>(found - nodes_.data());
    if (node == kRoot) return kRoot;
  }
}

}  // namespace asr_stream
