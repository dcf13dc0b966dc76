#include "search/hotwords.h"

#include <algorithm>
#include <cstddef>
#include <locale>
#include <map>
#include <sstream>
#include <stdexcept>

#include "search/spelling.h"

namespace asr_stream {

namespace {

float read_boost(std::string_view line, std::string_view number) {
  std::istringstream stream{std::string(number)};
  stream.imbue(std::locale::classic());
  float boost = 0.0f;
  if (!(stream >> boost) || !(stream >> std::ws).eof() || !(boost > 0.0f && boost <= kMaxHotwordBoost)) {
    throw std::invalid_argument("hotword line '" + std::string(line) + "': the boost behind the colon or tab, '" +
                                std::string(number) + "', must be a number in (0, 20]");
  }
  return boost;
}

}  // namespace

Hotwords::Hotwords(std::string_view list, const std::vector<std::string>& tokens, float boost) {
  if (!(boost > 0.0f && boost <= kMaxHotwordBoost)) {
    throw std::invalid_argument("hotword boost must be in (0, 20], got " + std::to_string(boost));
  }
  const Spelling spelling(tokens);
  std::map<std::string, float> boosts;
  for (const std::string_view line : list_lines(list)) {
    const std::size_t separator = line.find_last_of(":\t");
    const float own = separator == std::string_view::npos ? boost : read_boost(line, line.substr(separator + 1));
    float& highest = boosts[' ' + spelling.spell(line.substr(0, separator), "hotword")];
    highest = std::max(highest, own);
    highest_boost_ = std::max(highest_boost_, own);
  }
  if (boosts.empty()) throw std::invalid_argument("the list of hotwords has no words; give one or more, or no list");

  num_hotwords_ = boosts.size();
  std::vector<std::string_view> texts;
  std::vector<float> values;
  for (const auto& [text, value] : boosts) {
    texts.push_back(text);
    values.push_back(value);
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
      const char last = static_cast<char>(byte);
      const auto index = static_cast<std::size_t>(child);
      letters[index] = letters[static_cast<std::size_t>(node)] + static_cast<float>(num_letters({&last, 1}));
      Node& next = nodes_[index];
      if (node != Lexicon::kRoot) next.longest_suffix = advance(at(node).longest_suffix, byte);
      const std::int32_t word = spellings_->word(child);
      next.under_way = spellings_->best_log_prob(child) * letters[index];
      next.complete = at(next.longest_suffix).complete;
      if (word != Lexicon::kNone) next.complete += values[static_cast<std::size_t>(word)] * letters[index];
    }
  }
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
