// An event in the form of the C API: structs with pointers into the event. Include it after asr_stream.h with the type
// asr_stream renamed.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "segment.h"

namespace asr_stream {

// The pointers are valid until the next call of `set`.
class EventView {
 public:
  // Converts the next event, or returns null.
  const asr_event* set(std::optional<Event> event) {
    event_ = std::move(event);
    if (!event_) return nullptr;
    fill(words_, event_->words);
    fill(raw_words_, event_->raw_words);
    alternatives_.clear();
    alternative_words_.resize(event_->alternatives.size());
    for (std::size_t i = 0; i < event_->alternatives.size(); ++i) {
      const Alternative& other = event_->alternatives[i];
      std::vector<asr_word>& words = alternative_words_[i];
      fill(words, other.words);
      alternatives_.push_back({other.text.c_str(), other.confidence, first(words), words.size()});
    }
    view_ = {type(),
             event_->text.c_str(),
             event_->start_s,
             event_->end_s,
             first(words_),
             words_.size(),
             event_->num_stable,
             event_->endpoint,
             event_->raw.c_str(),
             first(raw_words_),
             raw_words_.size(),
             first(alternatives_),
             alternatives_.size(),
             event_->num_taken_back};
    return &view_;
  }

 private:
  template <typename Item>
  static const Item* first(const std::vector<Item>& items) {
    return items.empty() ? nullptr : items.data();
  }

  static void fill(std::vector<asr_word>& to, const std::vector<Word>& from) {
    to.clear();
    for (const Word& word : from) to.push_back({word.text.c_str(), word.start_s, word.end_s, word.confidence});
  }

  asr_event_type type() const {
    switch (event_->type) {
      case Event::Type::kPartial: return ASR_PARTIAL;
      case Event::Type::kFinal: return ASR_FINAL;
      case Event::Type::kGap: return ASR_GAP;
      case Event::Type::kError: break;
    }
    return ASR_ERROR;
  }

  std::optional<Event> event_;
  std::vector<asr_word> words_, raw_words_;
  std::vector<asr_alternative> alternatives_;
  std::vector<std::vector<asr_word>> alternative_words_;
  asr_event view_{};
};

}  // namespace asr_stream
