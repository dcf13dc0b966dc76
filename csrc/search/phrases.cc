#include "search/phrases.h"

#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "search/g2p.h"
#include "search/spelling.h"
#include "utf8.h"

namespace asr_stream {

Phrases::Phrases(std::string_view list, const std::vector<std::string>& tokens, float unknown_cost,
                 const std::vector<std::string>& phones, const NgramLm* lm)
    : over_phones_(have_phones(lm, phones)), unknown_cost_(unknown_cost) {
  check_option("unknown_cost", unknown_cost);
  const Spelling spelling(tokens);
  std::optional<Pronouncer> pronouncer;
  if (over_phones_) pronouncer.emplace(*lm);
  Pronunciations pronunciations;
  std::set<std::string> spelled;
  use_lines(list, "phrase", warnings_, [&](std::string_view line) {
    if (line == kUnknownPhrase) return;
    try {
      const std::string phrase = spelling.spell(line, "phrase");
      for (const std::string& word : pronouncer ? split_words(phrase) : std::vector<std::string>()) {
        if (pronunciations.count(word)) continue;
        const std::vector<std::string> found = pronouncer->pronounce(word, "phrase");
        pronunciations[word] = {found.begin(), found.end()};
      }
      spelled.insert(' ' + phrase);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("phrase line '" + std::string(line) + "': " + error.what());
    }
  });
  if (spelled.empty()) {
    throw std::invalid_argument(
        warnings_.empty() ? "the list of phrases has no phrase; give one or more, or no list for free speech"
                          : "no line of the list of phrases can be used: " + warnings_.front());
  }
  const std::vector<std::string_view> phrases(spelled.begin(), spelled.end());
  over_phones_ ? pronounce(phrases, pronunciations, phones, *lm) : spell(phrases, tokens);
  tokens_.push_back("\xE2\x96\x81" + std::string(kUnknownPhrase));
}

void Phrases::spell(const std::vector<std::string_view>& phrases, const std::vector<std::string>& tokens) {
  tokens_ = tokens;
  std::vector<Lexicon::Entry> entries;
  for (const std::string_view phrase : phrases) entries.push_back({phrase, 0});  // only where one ends matters
  const float log_prob = 0.0f;
  const Lexicon trie(std::move(entries), &log_prob);
  begin_ = trie.child(kRoot, ' ');
  const std::vector<std::string> texts = token_texts(tokens);
  std::vector<std::vector<std::int32_t>> by_first_byte(256);
  for (std::size_t token = 0; token < texts.size(); ++token) {
    const bool is_text = !texts[token].empty();
    const std::uint8_t first = is_text ? static_cast<std::uint8_t>(texts[token].front()) : 0;
    begins_word_.push_back(first == ' ');
    if (is_text) by_first_byte[first].push_back(static_cast<std::int32_t>(token));
  }
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(trie.num_nodes()); ++node) {
    first_step_.push_back(steps_.size());
    for (std::int32_t i = 0; i < trie.num_children(node); ++i) {
      for (const std::int32_t token : by_first_byte[trie.byte(trie.first_child(node) + i)]) {
        std::int32_t end = node;
        for (const char byte : texts[static_cast<std::size_t>(token)]) {
          if (end != Lexicon::kNone) end = trie.child(end, static_cast<std::uint8_t>(byte));
        }
        if (end != Lexicon::kNone) steps_.push_back({token, end, token});
      }
    }
    ends_phrase_.push_back(trie.word(node) != Lexicon::kNone);
    ends_word_.push_back(ends_phrase_.back() != 0 || (node != kRoot && trie.child(node, ' ') != Lexicon::kNone));
  }
  first_step_.push_back(steps_.size());
}

void Phrases::pronounce(const std::vector<std::string_view>& phrases, const Pronunciations& pronunciations,
                        const std::vector<std::string>& phones, const NgramLm& lm) {
  const std::string phone_bytes = lm.bytes_of_phones(phones);
  std::array<std::int32_t, 256> begins{};  // word-initial token of each phone, by its byte
  begins_word_.assign(1, false);           // blank
  for (std::size_t i = 0; i < phones.size(); ++i) {
    begins_word_.insert(begins_word_.end(), {true, false});
    begins[static_cast<std::uint8_t>(phone_bytes[i])] = 1 + 2 * static_cast<std::int32_t>(i);
  }
  tokens_.assign(1, kInside);
  std::vector<std::vector<Step>> steps;  // by node
  const auto new_node = [&](bool ends_word) {
    steps.emplace_back();
    ends_phrase_.push_back(false);
    ends_word_.push_back(ends_word);
    return static_cast<std::int32_t>(steps.size()) - 1;
  };
  const std::int32_t root = new_node(false);
  std::map<std::pair<std::int32_t, std::string>, std::int32_t> ends;  // by the node before a word and the word
  std::map<std::string, std::int32_t> outputs;
  for (const std::string_view phrase : phrases) {
    std::int32_t node = root;
    for (const std::string& word : split_words(phrase)) {
      const auto [end, is_new] = ends.try_emplace({node, word}, 0);
      if (is_new) {
        end->second = new_node(true);
        const auto [output, is_first] = outputs.try_emplace(word, static_cast<std::int32_t>(tokens_.size()));
        if (is_first) tokens_.push_back("\xE2\x96\x81" + word);
        for (const std::string& bytes : pronunciations.at(word)) {
          std::int32_t from = node;
          for (std::size_t i = 0; i < bytes.size(); ++i) {
            const std::int32_t token = begins[static_cast<std::uint8_t>(bytes[i])] + (i > 0);
            const std::int32_t to = i + 1 == bytes.size() ? end->second : new_node(false);
            steps[static_cast<std::size_t>(from)].push_back({token, to, i > 0 ? 0 : output->second});
            from = to;
          }
        }
      }
      node = end->second;
    }
    ends_phrase_[static_cast<std::size_t>(node)] = true;
  }
  begin_ = new_node(false);
  for (const Step& step : std::vector<Step>(steps.front())) {
    steps.back().push_back({step.token + 1, step.node, step.output});
  }
  for (const std::vector<Step>& of_node : steps) {
    first_step_.push_back(steps_.size());
    steps_.insert(steps_.end(), of_node.begin(), of_node.end());
  }
  first_step_.push_back(steps_.size());
}

}  // namespace asr_stream
