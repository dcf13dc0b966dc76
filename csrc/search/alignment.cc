#include "search/alignment.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "contract.h"

namespace asr_stream {

namespace {

constexpr std::int32_t kNoState = -1;
constexpr double kAnySpeechCost = 0.1;  // per frame of a word of any speech, so that words with a spelling get theirs

// What a state emits.
enum class Emits { kToken, kBlank, kOther, kAny };

// A state of the network. A path enters `enters` of its word's states and leaves from `leaves`. Between the tokens of a
// spelling is a blank, which is optional between different tokens. Between two words are a blank and other speech.
struct State {
  Emits emits;
  std::int32_t token;     // of kToken
  std::int32_t word;      // before which a state between words is; else the word of the state
  std::int32_t spelling;  // kNoState between words
  bool enters;
  bool leaves;
};

// The network of a text, and the most likely path through it.
class TextPath {
 public:
  TextPath(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size,
           const std::vector<Spellings>& words, const DifferenceCosts& costs)
      : log_probs_(log_probs), num_frames_(num_frames), vocab_size_(vocab_size), costs_(costs) {
    firsts_.reserve(words.size() + 1);
    for (std::size_t word = 0; word < words.size(); ++word) {
      add_between(static_cast<std::int32_t>(word));
      add_word(static_cast<std::int32_t>(word), words[word]);
    }
    add_between(static_cast<std::int32_t>(words.size()));
    scores_.assign(states_.size(), kNever);
    next_ = scores_;
    before_.resize(states_.size() * static_cast<std::size_t>(num_frames_));
    for (std::int64_t frame = 0; frame < num_frames_; ++frame) advance(frame);
    leave(num_frames_ == 0);
    if (score() == kNever) throw std::invalid_argument("this text has a probability of 0");
    path_.resize(static_cast<std::size_t>(num_frames_));
    std::int32_t state = exits_.back().state;
    for (std::int64_t frame = num_frames_; frame-- > 0;) {
      path_[static_cast<std::size_t>(frame)] = state;
      state = before_[static_cast<std::size_t>(frame) * states_.size() + static_cast<std::size_t>(state)];
    }
  }

  const std::vector<std::int32_t>& states() const { return path_; }  // of each frame, the index of its state
  double score() const { return exits_.back().score; }
  const State& state(std::int32_t index) const { return states_[static_cast<std::size_t>(index)]; }

  struct Highest {
    double log_prob;
    bool is_blank;
  };
  Highest highest(std::int64_t frame) const {
    const float* row = log_probs_ + frame * vocab_size_;
    const float* found = std::max_element(row, row + vocab_size_);
    return {*found, found - row == kBlankId};
  }

 private:
  // The best way to have passed the words before some word, and its last state; kNoState before the first frame.
  struct Exit {
    double score = kNever;
    std::int32_t state = kNoState;
  };

  void add_between(std::int32_t word) {
    firsts_.push_back(states_.size());
    states_.push_back({Emits::kBlank, kNoState, word, kNoState, true, true});
    states_.push_back({Emits::kOther, kNoState, word, kNoState, true, true});
  }

  void add_word(std::int32_t word, const Spellings& spellings) {
    if (spellings.empty()) states_.push_back({Emits::kAny, kNoState, word, 0, true, true});
    for (std::size_t i = 0; i < spellings.size(); ++i) {
      const std::vector<std::int32_t>& tokens = spellings[i];
      if (tokens.empty()) throw std::invalid_argument("word " + std::to_string(word) + " has an empty spelling");
      for (std::size_t k = 0; k < tokens.size(); ++k) {
        if (tokens[k] < 0 || tokens[k] >= vocab_size_) {
          throw std::invalid_argument("token id " + std::to_string(tokens[k]) + " is outside 0 to " +
                                      std::to_string(vocab_size_ - 1));
        }
        const auto spelling = static_cast<std::int32_t>(i);
        if (k > 0) states_.push_back({Emits::kBlank, kNoState, word, spelling, false, false});
        states_.push_back({Emits::kToken, tokens[k], word, spelling, k == 0, k + 1 == tokens.size()});
      }
    }
  }

  // Finds exits_: for each word the best path that has passed all words before it, said or skipped.
  void leave(bool begins) {
    exits_.assign(firsts_.size(), {});
    if (begins) exits_[0] = {0.0, kNoState};
    for (std::size_t i = 0; i < states_.size() && !begins; ++i) {
      const State& state = states_[i];
      if (!state.leaves) continue;
      Exit& exit = exits_[static_cast<std::size_t>(state.word + (state.spelling != kNoState))];
      if (scores_[i] > exit.score) exit = {scores_[i], static_cast<std::int32_t>(i)};
    }
    for (std::size_t word = 1; word < exits_.size(); ++word) {
      const double skipped = exits_[word - 1].score - costs_.skipped;
      if (skipped > exits_[word].score) exits_[word] = {skipped, exits_[word - 1].state};
    }
  }

  // The best way into the first token of a word: not from an equal token, with which CTC would merge it.
  Exit entry(const State& state) const {
    const Exit& exit = exits_[static_cast<std::size_t>(state.word)];
    const auto merges = [&](std::size_t i) {
      return states_[i].emits == Emits::kToken && states_[i].token == state.token;
    };
    if (state.emits != Emits::kToken || exit.state == kNoState || !merges(static_cast<std::size_t>(exit.state))) {
      return exit;
    }
    Exit other;
    const std::size_t begin = firsts_[static_cast<std::size_t>(std::max(state.word - 1, 0))];
    for (std::size_t i = begin; i < firsts_[static_cast<std::size_t>(state.word)] + 2; ++i) {
      const bool is_before = states_[i].leaves && states_[i].word + (states_[i].spelling != kNoState) == state.word;
      if (is_before && !merges(i) && scores_[i] > other.score) other = {scores_[i], static_cast<std::int32_t>(i)};
    }
    return other;
  }

  void advance(std::int64_t frame) {
    leave(frame == 0);
    const float* row = log_probs_ + frame * vocab_size_;
    const auto [log_prob, is_blank] = highest(frame);
    const double other = log_prob - (is_blank ? 0.0 : costs_.other);
    const double any = log_prob - (is_blank ? 0.0 : kAnySpeechCost);
    const auto emitted = [&](const State& state) -> double {
      if (state.emits == Emits::kToken) return row[state.token];
      return state.emits == Emits::kBlank ? row[kBlankId] : state.emits == Emits::kOther ? other : any;
    };
    std::int32_t* before = before_.data() + static_cast<std::size_t>(frame) * states_.size();
    for (std::size_t i = states_.size(); i-- > 0;) {  // inside a word, a state is reached only from earlier ones
      const State& state = states_[i];
      Exit best{scores_[i], static_cast<std::int32_t>(i)};
      const auto take = [&](const Exit& other) {
        if (other.score > best.score) best = other;
      };
      if (state.enters) {
        take(entry(state));
      } else {
        take({scores_[i - 1], static_cast<std::int32_t>(i - 1)});
        const bool skips = state.emits == Emits::kToken && states_[i - 2].token != state.token;
        if (skips) take({scores_[i - 2], static_cast<std::int32_t>(i - 2)});
      }
      next_[i] = best.score + emitted(state);
      before[i] = best.state;
    }
    scores_.swap(next_);
  }

  const float* log_probs_;
  std::int64_t num_frames_;
  std::int64_t vocab_size_;
  DifferenceCosts costs_;
  std::vector<State> states_;
  std::vector<std::size_t> firsts_;  // the index of the first state between words, for each word and for the end
  std::vector<double> scores_;
  std::vector<double> next_;
  std::vector<Exit> exits_;
  std::vector<std::int32_t> before_;  // (num_frames, states): the state in the previous frame
  std::vector<std::int32_t> path_;
};

}  // namespace

TextAlignment align_text(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size,
                         const std::vector<Spellings>& words, const DifferenceCosts& costs) {
  if (!(costs.skipped >= 0.0 && costs.other >= 0.0)) throw std::invalid_argument("a cost is negative");
  const TextPath network(log_probs, num_frames, vocab_size, words, costs);
  TextAlignment result;
  result.spellings.assign(words.size(), kSkipped);
  result.hypothesis.log_prob = network.score();
  const std::vector<std::int32_t>& path = network.states();
  for (std::int64_t begin = 0, end = 0; begin < num_frames; begin = end) {
    const std::int32_t index = path[static_cast<std::size_t>(begin)];
    while (end < num_frames && path[static_cast<std::size_t>(end)] == index) ++end;
    const State& state = network.state(index);
    if (state.emits == Emits::kBlank) continue;
    TokenSpan span{begin, end, 0.0};
    if (state.emits != Emits::kToken) {
      while (span.start + 1 < span.end && network.highest(span.start).is_blank) ++span.start;
      while (span.start + 1 < span.end && network.highest(span.end - 1).is_blank) --span.end;
    }
    if (state.emits == Emits::kOther) {
      if (!network.highest(span.start).is_blank) result.others.emplace_back(span.start, span.end);
      continue;
    }
    const bool is_token = state.emits == Emits::kToken;
    for (std::int64_t frame = span.start; frame < span.end; ++frame) {
      span.log_prob += is_token ? log_probs[frame * vocab_size + state.token] : network.highest(frame).log_prob;
    }
    span.append_to(result.hypothesis);
    result.hypothesis.tokens.push_back(is_token ? state.token : kAnySpeech);
    result.spellings[static_cast<std::size_t>(state.word)] = state.spelling;
  }
  return result;
}

Hypothesis align_tokens(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size,
                        const std::vector<std::int32_t>& tokens, std::int64_t first_frame) {
  auto num_needed = static_cast<std::int64_t>(tokens.size());
  for (std::size_t i = 1; i < tokens.size(); ++i) num_needed += tokens[i] == tokens[i - 1];
  if (num_needed < 1 || num_needed > num_frames) {
    throw std::invalid_argument(std::to_string(tokens.size()) + " tokens need at least " +
                                std::to_string(std::max<std::int64_t>(num_needed, 1)) + " frames; there are " +
                                std::to_string(num_frames));
  }
  Hypothesis found = align_text(log_probs, num_frames, vocab_size, {{tokens}}, {-kNever, -kNever}).hypothesis;
  for (std::int64_t& frame : found.start_frames) frame += first_frame;
  for (std::int64_t& frame : found.end_frames) frame += first_frame;
  return found;
}

}  // namespace asr_stream
