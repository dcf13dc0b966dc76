#include "search/ngram_lm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "checksum.h"
#include "utf8.h"

namespace asr_stream {

namespace {

constexpr char kMagic[] = "ASRNGRAM";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMaxWords = 1u << 24;
constexpr float kLargest = 10000.0f;  // limits log-probabilities and costs, so that sums stay finite
constexpr std::uint32_t kMaxNgrams = 1u << 30;
// Of pairs of bytes.
constexpr double kMinShare = 0.005;     // floor; otherwise slight evidence would produce a rare letter
constexpr double kUnigramShare = 0.05;  // interpolation weight of the single bytes, because pairs may be rare

[[noreturn]] void throw_damaged(const std::string& what) {
  throw std::invalid_argument("not a language model of asr-stream, or a damaged one: " + what +
                              "; write it again with `asr lm`");
}

// Without this, glibc keeps freed memory: 50 MB for the lexicon of the bundled language model and 4 MB for its
// look-ahead.
void return_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace

// Reads a file from front to back, never beyond its end.
class NgramLm::Reader {
 public:
  Reader(const std::uint8_t* data, std::size_t size) : next_(data), left_(size) {}

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

  // 7 bits per byte, lowest first; all but the last have their highest bit set.
  std::uint32_t varint(const char* what) {
    std::uint32_t value = 0;
    for (int shift = 0; shift < 28; shift += 7) {
      const std::uint8_t byte = *take(1, what);
      value |= (byte & 0x7fu) << shift;
      if (byte < 0x80) return value;
    }
    throw_damaged(std::string(what) + " are too large");
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

  void require(std::size_t count, const char* what) const {
    if (count > left_) throw_damaged(std::string("it ends within its ") + what);
  }

  std::size_t left() const { return left_; }
  std::string_view rest() const { return {reinterpret_cast<const char*>(next_), left_}; }

 private:
  const std::uint8_t* next_;
  std::size_t left_;
};

NgramLm::NgramLm(const std::uint8_t* data, std::size_t size) {
  Reader reader(data, size);
  if (std::memcmp(reader.take(8, "beginning"), kMagic, 8) != 0) throw_damaged("it begins with other bytes");
  if (const std::uint32_t version = reader.number("version"); version != kVersion) {
    throw_damaged("its version is " + std::to_string(version) + ", and this release reads version " +
                  std::to_string(kVersion));
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
  const std::size_t text_size = reader.number("size of words");
  const auto* text = reinterpret_cast<const char*>(reader.take(text_size, "words"));
  text_.reserve(text_size + 1);
  text_.assign(text, text_size);
  word_starts_.reserve(std::min(num_words, text_size) + 1);
  if (!text_.empty() && text_.back() != '\n') text_.push_back('\n');
  word_starts_.push_back(0);
  std::string_view before;
  for (std::size_t start = 0; start < text_.size();) {
    const std::size_t end = text_.find('\n', start);
    const std::string_view word(text_.data() + start, end - start);
    if (word.empty() || (start > 0 && before >= word)) throw_damaged("its words are not in order");
    if (!is_utf8(word)) throw_damaged("a word is not UTF-8");
    if (word_starts_.size() > num_words) break;
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
    Quantized table;
    table.low = reader.real(what);
    table.step = reader.real(what);
    const std::uint8_t* codes = reader.take(count, what);
    table.codes.assign(codes, codes + count);
    return table;
  };
  std::vector<std::uint32_t> by_rank(num_words());
  for (std::size_t n = 1; n <= order(); ++n) {
    Level& level = levels_[n - 1];
    if (n == 1) {
      unigram_log_probs_.resize(level.count);
      for (float& value : unigram_log_probs_) value = reader.real("unigram log-probabilities");
      std::iota(by_rank.begin(), by_rank.end(), 0u);
      std::sort(by_rank.begin(), by_rank.end(), [this](std::uint32_t a, std::uint32_t b) {
        const float difference = unigram_log_probs_[a] - unigram_log_probs_[b];
        return difference > 0.0f || (difference == 0.0f && a < b);
      });
    } else {
      Level& parents = levels_[n - 2];
      // Prevents a damaged n-gram count from allocating more than a multiple of the file's size.
      reader.require(parents.count + level.count, "n-grams");
      parents.children.reserve(parents.count);
      std::uint32_t begin = 0;
      for (std::size_t i = 0; i < parents.count; ++i) {
        const std::uint32_t end = begin + reader.varint("numbers of n-grams");
        if (end > level.count) throw_damaged("a broken index");
        parents.children.push_back(end - begin);
        begin = end;
      }
      if (begin != level.count) throw_damaged("a broken index");
      const auto highest_word = static_cast<std::uint32_t>(num_words() - 1);
      level.words = PackedNumbers(highest_word, level.count);
      for (std::size_t i = 0; i < level.count; ++i) {
        const std::uint32_t rank = reader.varint("words of n-grams");
        if (rank > highest_word) throw_damaged("n-grams of words that it does not have");
        level.words.push_back(by_rank[rank]);
      }
      check_children(parents, level);
      level.log_probs = read_quantized(level.count, "log-probabilities");
    }
    if (n < order()) level.backoffs = read_quantized(level.count, "back-off weights");
  }
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

  pronunciations_.reserve(num_words());
  const auto copy = [&](std::size_t size) {
    const std::uint8_t* bytes = reader.take(size, "pronunciations");
    pronunciation_bytes_.insert(pronunciation_bytes_.end(), bytes, bytes + size);
    return bytes;
  };
  for (std::size_t word = 0; word < num_words(); ++word) {
    pronunciations_.push_back(static_cast<std::uint32_t>(pronunciation_bytes_.size()));
    for (int left = *copy(1); left > 0; --left) {
      const std::size_t length = *copy(1);
      if (length == 0) throw_damaged("a pronunciation without phones");
      copy(length);
      for (auto phone = pronunciation_bytes_.end() - static_cast<std::ptrdiff_t>(length);
           phone != pronunciation_bytes_.end(); ++phone) {
        if (*phone >= phones_.size()) throw_damaged("phone " + std::to_string(*phone));
        *phone = static_cast<std::uint8_t>(*phone + kFirstPhone);
      }
    }
  }
  const std::size_t g2p_size = reader.number("size of the pronouncing model");
  const std::uint8_t* g2p = reader.take(g2p_size, "pronouncing model");
  g2p_.assign(g2p, g2p + g2p_size);
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

std::vector<std::string_view> NgramLm::pronunciations(std::int32_t word) const {
  std::vector<std::string_view> result;
  if (pronunciations_.empty()) return result;
  const std::uint8_t* next = pronunciation_bytes_.data() + pronunciations_[static_cast<std::size_t>(word)];
  for (int left = *next++; left > 0; --left) {
    const std::size_t length = *next++;
    result.emplace_back(reinterpret_cast<const char*>(next), length);
    next += length;
  }
  return result;
}

// The keys for looking up a word: its pronunciations or its spelling.
std::vector<std::string_view> NgramLm::forms(std::int32_t word, bool of_pronunciations) const {
  return of_pronunciations ? pronunciations(word) : std::vector<std::string_view>{this->word(word)};
}

const Lexicon& NgramLm::lexicon(bool of_pronunciations) const {
  auto& lexicon = lexicons_[of_pronunciations];
  std::call_once(lexicon_once_[of_pronunciations], [&] {
    std::vector<Lexicon::Entry> entries;
    entries.reserve(num_words());
    for (std::int32_t word = 0; word < static_cast<std::int32_t>(num_words()); ++word) {
      for (const std::string_view bytes : forms(word, of_pronunciations)) entries.push_back({bytes, word});
    }
    lexicon = std::make_unique<const Lexicon>(std::move(entries), unigram_log_probs_.data());
    return_free_memory();
  });
  return *lexicon;
}

const LookAhead* NgramLm::look_ahead(bool of_pronunciations) const {
  if (order() < 2) return nullptr;
  auto& look_ahead = look_aheads_[of_pronunciations];
  std::call_once(look_ahead_once_[of_pronunciations], [&] {
    look_ahead = std::make_unique<const LookAhead>(*this, lexicon(of_pronunciations));
    return_free_memory();
  });
  return look_ahead.get();
}

// Checks that the continuations of each context are sorted by their last word, without duplicates.
void NgramLm::check_children(const Level& parents, const Level& level) const {
  for (std::size_t i = 0; i < parents.count; ++i) {
    const auto [first, last] = parents.children[i];
    for (std::uint32_t k = first; k + 1 < last; ++k) {
      if (level.words[k] >= level.words[k + 1]) throw_damaged("n-grams out of order");
    }
  }
}

std::int32_t NgramLm::find_child(std::size_t order, std::int32_t context, std::int32_t word) const noexcept {
  const auto [begin, end] = levels_[order - 1].children[static_cast<std::size_t>(context)];
  const PackedNumbers& words = levels_[order].words;
  const std::size_t found = words.lower_bound(begin, end, static_cast<std::uint32_t>(word));
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
      result.push_back(static_cast<float>(std::log(least)));
    }
  });
  return result;
}

// The share of each pair, [before * 256 + byte].
std::vector<double> NgramLm::pair_shares(bool of_pronunciations) const {
  std::vector<double> shares(256 * 256);
  double sum = 0.0;
  for (std::size_t i = 0; i < num_words(); ++i) {
    const std::string_view spelling = word(static_cast<std::int32_t>(i));
    if (spelling.front() == '<') continue;  // <s>, </s>, <unk>
    const std::vector<std::string_view> forms = this->forms(static_cast<std::int32_t>(i), of_pronunciations);
    const auto num_forms = static_cast<double>(std::max<std::size_t>(forms.size(), 1));
    const double probability = std::exp(static_cast<double>(unigram_log_probs_[i])) / num_forms;
    for (const std::string_view form : forms) {
      std::size_t before = ' ';
      for (const char letter : form) {
        const auto byte = static_cast<std::uint8_t>(letter);
        shares[before * 256 + byte] += probability;
        before = byte;
      }
      shares[before * 256 + ' '] += probability;
      sum += probability * static_cast<double>(form.size() + 1);
    }
  }
  for (double& share : shares) share = sum > 0.0 ? share / sum : 0.0;
  return shares;
}

}  // namespace asr_stream
