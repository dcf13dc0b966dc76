#include "search/ngram_lm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "checksum.h"
#include "utf8.h"

namespace asr_stream {

namespace {

constexpr char kMagic[] = "ASRNGRAM";
constexpr std::uint32_t kVersion = 2;
constexpr std::uint32_t kMaxWords = 1u << 24;
constexpr float kLargest = 10000.0f;  // limits log-probabilities and costs, so that sums stay finite
constexpr std::uint32_t kMaxNgrams = 1u << 30;
constexpr std::uint32_t kMaxText = 1u << 30;  // bytes of all words, and of all pronunciations
constexpr std::size_t kAlignment = 8;         // of tables, in bytes from the beginning of the file
// Of pairs of bytes.
constexpr double kMinShare = 0.005;     // floor; otherwise slight evidence would produce a rare letter
constexpr double kUnigramShare = 0.05;  // interpolation weight of the single bytes, because pairs may be rare

[[noreturn]] void throw_damaged(const std::string& what) {
  throw std::invalid_argument("not a language model of asr-stream, or a damaged one: " + what +
                              "; write it again with `asr lm`");
}

}  // namespace

// Reads a file from front to back, never beyond its end.
class NgramLm::Reader {
 public:
  explicit Reader(const FileBytes& file) : begin_(file.data), next_(file.data), left_(file.size) {}

  const std::uint8_t* take(std::size_t count, const char* what) {
    require(count, what);
    const std::uint8_t* start = next_;
    next_ += count;
    left_ -= count;
    return start;
  }

  // Little-endian.
  std::uint32_t number(const char* what) {
    const std::uint8_t* bytes = take(4, what);
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | bytes[i];
    return value;
  }

  // `count` numbers as they are in memory, from the next aligned byte on.
  template <typename Number>
  const Number* table(std::size_t count, const char* what) {
    const auto offset = static_cast<std::size_t>(next_ - begin_) % kAlignment;
    take(offset == 0 ? 0 : kAlignment - offset, what);
    require(count, what, sizeof(Number));
    return reinterpret_cast<const Number*>(take(count * sizeof(Number), what));
  }

  std::uint32_t number(const char* what, std::uint32_t low, std::uint32_t high) {
    const std::uint32_t value = number(what);
    if (value < low || value > high) {
      throw_damaged(std::string(what) + " " + std::to_string(value) + " is not in [" + std::to_string(low) + ", " +
                    std::to_string(high) + "]");
    }
    return value;
  }

  float real(const char* what) {
    const std::uint32_t bits = number(what);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (!(std::fabs(value) <= kLargest)) throw_damaged(std::string(what) + " are not within +-10000");
    return value;
  }

  void require(std::size_t count, const char* what, std::size_t size = 1) const {
    if (count > left_ / size) throw_damaged(std::string("it ends within its ") + what);
  }

  std::size_t left() const { return left_; }
  std::string_view rest() const { return {reinterpret_cast<const char*>(next_), left_}; }

 private:
  const std::uint8_t* begin_;
  const std::uint8_t* next_;
  std::size_t left_;
};

NgramLm::NgramLm(FileBytes file) : file_(std::move(file)) {
  if (reinterpret_cast<std::uintptr_t>(file_.data) % kAlignment != 0) {
    file_ = FileBytes(std::vector<std::uint8_t>(file_.data, file_.data + file_.size));
  }
  Reader reader(file_);
  if (std::memcmp(reader.take(8, "beginning"), kMagic, 8) != 0) throw_damaged("it begins with other bytes");
  if (const std::uint32_t version = reader.number("version"); version != kVersion) {
    throw std::invalid_argument("a language model of version " + std::to_string(version) + ", and this release reads " +
                                "version " + std::to_string(kVersion) +
                                (version < kVersion ? ": it was made by an older release" : "") +
                                "; write it again with `asr lm`");
  }
  const std::uint64_t low = reader.number("checksum"), high = reader.number("checksum");
  if (checksum(reader.rest()) != (high << 32 | low)) throw_damaged(kWrongChecksum);
  levels_.resize(reader.number("order", 1, kMaxOrder));
  for (Level& level : levels_) level.count = reader.number("number of n-grams", 0, kMaxNgrams);
  read_words(reader);
  read_ngrams(reader);
  read_pronunciations(reader);
  if (reader.left() != 0) throw_damaged(std::to_string(reader.left()) + " bytes too many");

  const auto require = [this](std::string_view word) {
    const std::int32_t found = find_word(word);
    if (found < 0) throw_damaged("no word " + std::string(word));
    return found;
  };
  unknown_ = require("<unk>");
  end_of_sentence_ = require("</s>");
  begin_.contexts.fill(-1);
  if (order() > 1) begin_.contexts[0] = require("<s>");
}

void NgramLm::read_words(Reader& reader) {
  const std::size_t num_words = levels_[0].count;
  if (num_words < 3 || num_words > kMaxWords) throw_damaged(std::to_string(num_words) + " words");
  const std::size_t text_size = reader.number("size of words", 0, kMaxText);
  text_ = {reinterpret_cast<const char*>(reader.take(text_size, "words")), text_size};
  if (!is_utf8(text_)) throw_damaged("a word is not UTF-8");
  if (text_.empty() || text_.back() != '\n') throw_damaged("its last word has no end");
  word_starts_.reserve(std::min(num_words, text_size) + 1);
  word_starts_.push_back(0);
  std::string_view before;
  for (std::size_t start = 0; start < text_.size() && word_starts_.size() <= num_words;) {
    const std::size_t end = text_.find('\n', start);
    const std::string_view word = text_.substr(start, end - start);
    if (word.empty() || (start > 0 && before >= word)) throw_damaged("its words are not in order");
    before = word;
    start = end + 1;
    word_starts_.push_back(static_cast<std::uint32_t>(start));
  }
  if (word_starts_.back() != text_.size() || word_starts_.size() != num_words + 1) {
    throw_damaged("it announces " + std::to_string(num_words) + " words and has " +
                  std::to_string(std::count(text_.begin(), text_.end(), '\n')));
  }
}

void NgramLm::read_ngrams(Reader& reader) {
  const auto read_quantized = [&](std::size_t count, const char* what) {
    const float low = reader.real(what), step = reader.real(what);
    return Quantized{low, step, reader.take(count, what)};
  };
  unigram_log_probs_ = reader.table<float>(num_words(), "unigram log-probabilities");
  const auto is_valid = [](float log_prob) { return std::fabs(log_prob) <= kLargest; };  // false for NaN
  if (!std::all_of(unigram_log_probs_, unigram_log_probs_ + num_words(), is_valid)) {
    throw_damaged("unigram log-probabilities are not within +-10000");
  }
  for (std::size_t n = 1; n <= order(); ++n) {
    Level& level = levels_[n - 1];
    if (n > 1) {
      read_children(reader, levels_[n - 2], level);
      level.log_probs = read_quantized(level.count, "log-probabilities");
    }
    if (n < order()) level.backoffs = read_quantized(level.count, "back-off weights");
  }
}

// The ranges of `parents` in `level`, and its words. Those of bigrams are used as indexes; others are only compared.
// That they are in order is not checked, because it would take longer than all other checks.
void NgramLm::read_children(Reader& reader, Level& parents, Level& level) {
  constexpr char kWhat[] = "numbers of n-grams";
  const std::size_t num_ends = reader.number(kWhat);
  const auto* blocks = reader.table<std::uint32_t>(PackedRanges::num_blocks(parents.count), kWhat);
  const auto* ends = reader.table<std::uint32_t>(num_ends, kWhat);
  const auto* lengths = reader.table<std::uint8_t>(parents.count, kWhat);
  parents.children = {blocks, ends, lengths};
  if (!parents.children.cover(parents.count, static_cast<std::uint32_t>(level.count), num_ends)) {
    throw_damaged("a broken index");
  }
  const auto highest = static_cast<std::uint32_t>(num_words() - 1);
  const std::size_t num_units = PackedNumbers::num_units(highest, level.count);
  level.words = {reader.table<std::uint64_t>(num_units, "words of n-grams"), highest};
  if (&parents != levels_.data()) return;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < level.count; ++i) largest = std::max(largest, level.words[i]);
  if (largest > highest) throw_damaged("n-grams of words that it does not have");
}

void NgramLm::read_pronunciations(Reader& reader) {
  pronunciations_size_ = reader.left();
  const std::size_t names_size = reader.number("size of phones");
  if (names_size == 0) return;  // without pronunciations nothing follows
  const std::string_view names(reinterpret_cast<const char*>(reader.take(names_size, "phones")), names_size);
  for (std::size_t start = 0; start < names.size();) {
    const std::size_t end = std::min(names.find('\n', start), names.size());
    phones_.emplace_back(names.substr(start, end - start));
    if (phones_.back().empty() || !is_utf8(phones_.back()) ||
        std::count(phones_.begin(), phones_.end(), phones_.back()) != 1) {
      throw_damaged("a phone without a name, or a name that occurs twice");
    }
    if (phones_.size() > kMaxPhones) throw_damaged("more than " + std::to_string(kMaxPhones) + " phones");
    start = end + 1;
  }

  if (reader.left() > kMaxText) throw_damaged("more than a gigabyte of pronunciations");
  constexpr char kWhat[] = "pronunciations";
  pronunciation_bytes_ = reader.take(0, kWhat);
  pronunciations_.reserve(num_words());
  for (std::size_t word = 0; word < num_words(); ++word) {
    const std::uint8_t* const start = reader.take(1, kWhat);
    pronunciations_.push_back(static_cast<std::uint32_t>(start - pronunciation_bytes_));
    for (int left = *start; left > 0; --left) {
      const std::size_t length = *reader.take(1, kWhat);
      if (length == 0) throw_damaged("a pronunciation without phones");
      const std::uint8_t* const phones = reader.take(length, kWhat);
      for (std::size_t i = 0; i < length; ++i) {
        const auto phone = static_cast<std::uint8_t>(phones[i] - kFirstPhone);  // beyond all phones if it is negative
        if (phone >= phones_.size()) throw_damaged("phone " + std::to_string(phone));
      }
    }
  }
  const std::size_t g2p_size = reader.number("size of the pronouncing model");
  if (g2p_size == 0) return;
  g2p_ = {reader.table<std::uint8_t>(g2p_size, "pronouncing model"), g2p_size, file_.owner};
}

std::string NgramLm::bytes_of_phones(const std::vector<std::string>& phones) const {
  std::string faults;
  const auto require = [&faults](const char* who, const auto& has, const auto& needed) {
    std::string missing;
    for (const std::string& name : needed) {
      if (std::find(has.begin(), has.end(), name) == has.end()) missing += (missing.empty() ? " lacks " : ", ") + name;
    }
    if (!missing.empty()) faults += (faults.empty() ? " " : "; ") + (who + missing);
  };
  require("the model", phones, phones_);
  require("the language model", phones_, phones);
  if (!faults.empty()) {
    throw std::invalid_argument("the language model pronounces words in other phones than the model has:" + faults +
                                "; use the lexicon that the model was trained with, or a language model without "
                                "pronunciations");
  }
  std::string bytes;
  for (const std::string& phone : phones) {
    bytes += static_cast<char>(kFirstPhone + (std::find(phones_.begin(), phones_.end(), phone) - phones_.begin()));
  }
  return bytes;
}

// The keys for looking up a word: its pronunciations or its spelling.
template <typename Use>
void NgramLm::for_each_form(std::int32_t word, bool of_pronunciations, Use use) const {
  if (!of_pronunciations) return use(this->word(word));
  if (pronunciations_.empty()) return;
  const std::uint8_t* next = pronunciation_bytes_ + pronunciations_[static_cast<std::size_t>(word)];
  for (int left = *next++; left > 0; --left) {
    const std::size_t length = *next++;
    use(std::string_view(reinterpret_cast<const char*>(next), length));
    next += length;
  }
}

std::size_t NgramLm::num_forms(std::int32_t word, bool of_pronunciations) const noexcept {
  if (!of_pronunciations) return 1;
  return pronunciations_.empty() ? 0 : pronunciation_bytes_[pronunciations_[static_cast<std::size_t>(word)]];
}

std::vector<std::string_view> NgramLm::pronunciations(std::int32_t word) const {
  std::vector<std::string_view> result;
  for_each_form(word, true, [&](std::string_view form) { result.push_back(form); });
  return result;
}

const Lexicon& NgramLm::lexicon(bool of_pronunciations) const {
  auto& lexicon = lexicons_[of_pronunciations];
  std::call_once(lexicon_once_[of_pronunciations], [&] {
    std::vector<Lexicon::Entry> entries;
    std::size_t count = 0;
    const auto num_words = static_cast<std::int32_t>(this->num_words());
    for (std::int32_t word = 0; word < num_words; ++word) count += num_forms(word, of_pronunciations);
    entries.reserve(count);
    for (std::int32_t word = 0; word < num_words; ++word) {
      for_each_form(word, of_pronunciations, [&](std::string_view form) { entries.push_back({form, word}); });
    }
    lexicon = std::make_unique<const Lexicon>(std::move(entries), unigram_log_probs_);
  });
  return *lexicon;
}

const LookAhead* NgramLm::look_ahead(bool of_pronunciations) const {
  if (order() < 2) return nullptr;
  auto& look_ahead = look_aheads_[of_pronunciations];
  std::call_once(look_ahead_once_[of_pronunciations], [&] {
    look_ahead = std::make_unique<const LookAhead>(*this, lexicon(of_pronunciations));
  });
  return look_ahead.get();
}

std::int32_t NgramLm::find_child(std::size_t order, std::int32_t context, std::int32_t word) const noexcept {
  const auto [begin, end] = levels_[order - 1].children[static_cast<std::size_t>(context)];
  const PackedNumbers& words = levels_[order].words;
  const std::size_t found = lower_bound(words, begin, end, static_cast<std::uint32_t>(word));
  return found < end && words[found] == static_cast<std::uint32_t>(word) ? static_cast<std::int32_t>(found) : -1;
}

float NgramLm::advance(State& state, std::int32_t word) const noexcept {
  State next;
  next.contexts.fill(-1);
  float log_prob = unigram_log_probs_[static_cast<std::size_t>(word)];
  if (order() > 1) next.contexts[0] = word;
  for (std::size_t n = 1; n < order(); ++n) {  // the longer context takes precedence
    const std::int32_t context = state.contexts[n - 1];
    if (context < 0) continue;
    const std::int32_t found = find_child(n, context, word);
    if (found >= 0) {
      log_prob = levels_[n].log_probs[static_cast<std::size_t>(found)];
      if (n + 1 < order()) next.contexts[n] = found;
    } else {
      log_prob += levels_[n - 1].backoffs[static_cast<std::size_t>(context)];
    }
  }
  state = next;
  return log_prob;
}

std::int32_t NgramLm::find(std::string_view word) const noexcept {
  const std::int32_t found = find_word(word);
  return found < 0 ? unknown_ : found;
}

std::int32_t NgramLm::find_word(std::string_view word) const noexcept {
  std::int32_t low = 0, high = static_cast<std::int32_t>(num_words());
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (this->word(middle) < word) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low < static_cast<std::int32_t>(num_words()) && this->word(low) == word ? low : -1;
}

const std::vector<float>& NgramLm::pair_log_probs(bool of_pronunciations) const {
  std::vector<float>& result = pair_log_probs_[of_pronunciations];
  std::call_once(pair_log_probs_once_[of_pronunciations], [&] {
    std::vector<float> log_probs;  // after an exception, the next call begins anew
    const std::vector<double> pairs = pair_shares(of_pronunciations);
    std::array<double, 256> before{}, of{};  // marginals
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      before[i / 256] += pairs[i];
      of[i % 256] += pairs[i];
    }
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const double bigram = before[i / 256] > 0.0 ? pairs[i] / before[i / 256] : 0.0;
      const double share = (1.0 - kUnigramShare) * bigram + kUnigramShare * of[i % 256];
      const double least = share > kMinShare ? share : kMinShare;  // also if it is NaN
      log_probs.push_back(static_cast<float>(std::log(least)));
    }
    result = std::move(log_probs);
  });
  return result;
}

// The share of each pair, [before * 256 + byte].
std::vector<double> NgramLm::pair_shares(bool of_pronunciations) const {
  std::vector<double> shares(256 * 256);
  double sum = 0.0;
  for (std::size_t i = 0; i < num_words(); ++i) {
    const auto word = static_cast<std::int32_t>(i);
    if (this->word(word).front() == '<') continue;  // <s>, </s>, <unk>
    const auto num_forms = static_cast<double>(std::max<std::size_t>(this->num_forms(word, of_pronunciations), 1));
    const double probability = std::exp(static_cast<double>(unigram_log_probs_[i])) / num_forms;
    for_each_form(word, of_pronunciations, [&](std::string_view form) {
      std::size_t before = ' ';
      for (const char letter : form) {
        const auto byte = static_cast<std::uint8_t>(letter);
        shares[before * 256 + byte] += probability;
        before = byte;
      }
      shares[before * 256 + ' '] += probability;
      sum += probability * static_cast<double>(form.size() + 1);
    });
  }
  for (double& share : shares) share = sum > 0.0 ? share / sum : 0.0;
  return shares;
}

}  // namespace asr_stream
