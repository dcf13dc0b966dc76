#include "search/alignment.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "contract.h"

namespace asr_stream {

Hypothesis align_tokens(const float* log_probs, std::int64_t num_frames, std::int64_t vocab_size,
                        const std::vector<std::int32_t>& tokens, std::int64_t first_frame) {
  auto num_needed = static_cast<std::int64_t>(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab_size) {
      throw std::invalid_argument("token id " + std::to_string(tokens[i]) + " is outside 0 to " +
                                  std::to_string(vocab_size - 1));
    }
    num_needed += i > 0 && tokens[i] == tokens[i - 1];
  }
  if (num_needed < 1 || num_needed > num_frames) {
    throw std::invalid_argument(std::to_string(tokens.size()) + " tokens need at least " +
                                std::to_string(std::max<std::int64_t>(num_needed, 1)) + " frames; there are " +
                                std::to_string(num_frames));
  }
  // States: blank, token, blank, token, ..., blank. A token is reached from itself, from the blank before it and, if
  // the previous token differs, from that token.
  const std::size_t num_states = 2 * tokens.size() + 1;
  const auto emitted = [&](std::int64_t frame, std::size_t state) -> double {
    return log_probs[frame * vocab_size + (state % 2 ? tokens[state / 2] : kBlankId)];
  };
  std::vector<double> best(num_states, kNever);
  best[0] = emitted(0, 0);
  best[1] = emitted(0, 1);
  // Number of states by which the best path to each state has just advanced.
  std::vector<std::uint8_t> steps(static_cast<std::size_t>(num_frames) * num_states);
  for (std::int64_t frame = 1; frame < num_frames; ++frame) {
    std::uint8_t* row = steps.data() + static_cast<std::size_t>(frame) * num_states;
    for (std::size_t state = num_states; state-- > 0;) {  // a state is reached only from earlier ones
      const bool skips = state % 2 && state > 1 && tokens[state / 2] != tokens[state / 2 - 1];
      double highest = best[state];
      if (state > 0 && best[state - 1] > highest) highest = best[state - 1], row[state] = 1;
      if (skips && best[state - 2] > highest) highest = best[state - 2], row[state] = 2;
      best[state] = highest + emitted(frame, state);
    }
  }
  std::size_t state = best[num_states - 1] > best[num_states - 2] ? num_states - 1 : num_states - 2;
  if (best[state] == kNever) throw std::invalid_argument("these tokens have a probability of 0");
  Hypothesis result;
  result.tokens = tokens;
  result.log_prob = best[state];
  std::vector<TokenSpan> spans(tokens.size(), TokenSpan{0, 0, 0.0});
  for (std::int64_t frame = num_frames; frame-- > 0;) {
    if (state % 2) {
      TokenSpan& span = spans[state / 2];
      if (span.end == 0) span.end = first_frame + frame + 1;
      span.start = first_frame + frame;
      span.log_prob += emitted(frame, state);
    }
    state -= steps[static_cast<std::size_t>(frame) * num_states + state];
  }
  for (const TokenSpan& span : spans) span.append_to(result);
  return result;
}

}  // namespace asr_stream
