#include "search/g2p.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "utf8.h"

namespace asr_stream {

namespace {

// Together with kMaxLetters, this limits the work per word.
constexpr std::size_t kMaxHypotheses = 24;
constexpr double kBeamWidth = 9.0;          // nats below the best hypothesis with the same letters
constexpr std::size_t kMaxPairLetters = 4;
constexpr std::size_t kMaxPairPhones = 4;
constexpr std::size_t kMaxPairs = 4096;     // with the same letters
constexpr int kNumPronunciations = 3;       // of a word that the language model does not know

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

[[noreturn]] void throw_damaged_g2p(const std::string& what) {
  throw std::invalid_argument("not a pronunciation model of asr-stream, or a damaged one: " + what +
                              "; write it again with `asr lexicon train`");
}

// The start of each letter of a text, followed by its end.
std::vector<std::size_t> letter_starts(std::string_view text) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_letter(text[i])) starts.push_back(i);
  }
  starts.push_back(text.size());
  return starts;
}

double log_sum(double a, double b) { return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b))); }

struct Partial {
  NgramLm::State state;
  double log_prob;
  std::size_t before;  // index in `kept`; kNone for the first
  const std::vector<std::int32_t>* phones;
};

}  // namespace

G2p::G2p(FileBytes file) : lm_(std::move(file)) {
  std::set<std::string_view> names;
  const auto num_words = static_cast<std::int32_t>(lm_.num_words());
  const auto is_mark = [](std::string_view word) { return word == "<s>" || word == "</s>" || word == "<unk>"; };
  for (const bool collect : {true, false}) {  // first the names of the phones, then the pairs
    for (std::int32_t i = 0; i < num_words; ++i) {
      const std::string_view word = lm_.word(i);
      if (is_mark(word)) continue;
      const std::size_t brace = word.rfind('}');
      if (brace == std::string_view::npos) throw_damaged_g2p("it has words that are not pairs of letters and phones");
      const std::vector<std::string_view> phones = split(word.substr(brace + 1), "|");
      if (std::count(phones.begin(), phones.end(), "")) throw_damaged_g2p("a phone without a name");
      if (collect) {
        names.insert(phones.begin(), phones.end());
        continue;
      }
      const std::string_view letters = word.substr(0, brace);
      const std::size_t num_letters = letter_starts(letters).size() - 1;
      if (num_letters < 1 || num_letters > kMaxPairLetters || phones.size() > kMaxPairPhones) {
        throw_damaged_g2p("a pair of " + std::to_string(num_letters) + " letters and " + std::to_string(phones.size()) +
                      " phones");
      }
      max_letters_ = std::max(max_letters_, num_letters);
      std::vector<Pair>& pairs = pairs_[letters];
      if (pairs.size() == kMaxPairs) throw_damaged_g2p("too many pairs of the same letters");
      pairs.push_back({i, {}});
      for (const std::string_view phone : phones) {
        const auto found = std::lower_bound(phones_.begin(), phones_.end(), phone);
        pairs.back().phones.push_back(static_cast<std::int32_t>(found - phones_.begin()));
      }
    }
    if (collect) phones_.assign(names.begin(), names.end());
  }
  if (phones_.empty()) throw_damaged_g2p("it has no phones");
}

std::vector<G2p::Pronunciation> G2p::pronounce(std::string_view word, int num_best) const {
  if (num_best < 1) throw std::invalid_argument("num_best must be at least 1, got " + std::to_string(num_best));
  const std::vector<std::size_t> starts = letter_starts(word);
  const std::size_t num_letters = starts.size() - 1;
  if (num_letters < 1 || num_letters > kMaxLetters || starts.front() != 0) return {};

  std::vector<Partial> kept{{lm_.begin(), 0.0, kNone, nullptr}};  // all that have been extended
  std::vector<std::vector<Partial>> at(num_letters + 1);          // by number of letters consumed
  at[0] = kept;
  for (std::size_t i = 0; i < num_letters; ++i) {
    std::vector<Partial>& beam = at[i];
    if (beam.empty()) continue;
    const auto better = [](const Partial& a, const Partial& b) { return a.log_prob > b.log_prob; };
    std::stable_sort(beam.begin(), beam.end(), better);  // ties: the same order with every standard library
    if (beam.size() > kMaxHypotheses) beam.resize(kMaxHypotheses);
    for (const Partial& hypothesis : beam) {
      if (hypothesis.log_prob < beam.front().log_prob - kBeamWidth) break;
      const std::size_t before = i == 0 ? 0 : kept.size();
      if (i > 0) kept.push_back(hypothesis);
      for (std::size_t end = i + 1; end <= std::min(num_letters, i + max_letters_); ++end) {
        const auto found = pairs_.find(word.substr(starts[i], starts[end] - starts[i]));
        if (found == pairs_.end()) continue;
        for (const Pair& pair : found->second) {
          NgramLm::State state = hypothesis.state;
          double log_prob = hypothesis.log_prob + static_cast<double>(lm_.advance(state, pair.word));
          if (end == num_letters) {
            NgramLm::State last = state;
            log_prob += static_cast<double>(lm_.advance(last, lm_.end_of_sentence()));
          }
          at[end].push_back({state, log_prob, before, &pair.phones});
        }
      }
    }
    beam.clear();
  }

  std::map<std::vector<std::int32_t>, double> sums;  // over all alignments of each pronunciation
  double best = -INFINITY, total = -INFINITY;
  for (const Partial& last : at[num_letters]) best = std::max(best, last.log_prob);
  for (const Partial& last : at[num_letters]) {
    if (last.log_prob < best - kBeamWidth) continue;
    std::vector<std::int32_t> phones;
    for (const Partial* h = &last; h->phones != nullptr; h = &kept[h->before]) {
      phones.insert(phones.end(), h->phones->rbegin(), h->phones->rend());
    }
    if (phones.empty()) continue;
    std::reverse(phones.begin(), phones.end());
    const auto [entry, is_new] = sums.try_emplace(std::move(phones), last.log_prob);
    if (!is_new) entry->second = log_sum(entry->second, last.log_prob);
    total = std::isinf(total) ? last.log_prob : log_sum(total, last.log_prob);
  }
  std::vector<Pronunciation> result;
  for (const auto& [phones, log_prob] : sums) result.push_back({phones, log_prob - total});
  std::stable_sort(result.begin(), result.end(),
                   [](const Pronunciation& a, const Pronunciation& b) { return a.log_prob > b.log_prob; });
  result.resize(std::min(result.size(), static_cast<std::size_t>(num_best)));
  return result;
}

void Pronouncer::open_g2p() {
  if (g2p_fault_) std::rethrow_exception(g2p_fault_);
  if (g2p_ || lm_.g2p().size == 0) return;
  try {
    read_g2p();
  } catch (const std::invalid_argument&) {
    g2p_fault_ = std::current_exception();
    throw;
  }
}

void Pronouncer::read_g2p() {
  auto g2p = std::make_unique<const G2p>(lm_.g2p());
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
  g2p_ = std::move(g2p);
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
