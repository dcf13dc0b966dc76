#include "search/pronouncer.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace asr_stream {

namespace {

constexpr int kNumPronunciations = 3;  // per word from the G2P model

}  // namespace

void Pronouncer::open_g2p() {
  if (g2p_ || lm_.g2p().empty()) return;
  auto g2p = std::make_unique<const G2p>(lm_.g2p().data(), lm_.g2p().size());
  std::string bytes;
  for (const std::string& phone : g2p->phones()) {
    const auto found = std::find(lm_.phones().begin(), lm_.phones().end(), phone);
    if (found == lm_.phones().end()) {
      throw std::invalid_argument("the language model pronounces words with the phone '" + phone +
                                  "', which it does not name; write it again with `asr lm`");
    }
    bytes.push_back(static_cast<char>(NgramLm::kFirstPhone + (found - lm_.phones().begin())));
  }
  phone_bytes_ = std::move(bytes);
  g2p_ = std::move(g2p);  // last: after an error, the caller continues with the next word
}

std::vector<std::string> Pronouncer::pronounce(const std::string& word, const char* what) {
  std::vector<std::string> result;
  const std::int32_t number = lm_.find(word);
  if (number != lm_.unknown() && static_cast<std::size_t>(number) < lm_.num_words()) {
    for (const std::string_view bytes : lm_.pronunciations(number)) result.emplace_back(bytes);
  }
  if (!result.empty()) return result;
  open_g2p();
  if (g2p_) {
    for (const G2p::Pronunciation& found : g2p_->pronounce(word, kNumPronunciations)) {
      std::string bytes;
      for (const std::int32_t phone : found.phones) bytes += phone_bytes_[static_cast<std::size_t>(phone)];
      if (!bytes.empty()) result.push_back(std::move(bytes));
    }
  }
  if (result.empty()) {
    throw std::invalid_argument(std::string(what) + " '" + word +
                                "' cannot be pronounced: the language model does not know it " +
                                (g2p_ ? "and its pronouncing model cannot read it"
                                      : "and has no model that pronounces new words") +
                                "; write it as known words that are pronounced so");
  }
  return result;
}

}  // namespace asr_stream
