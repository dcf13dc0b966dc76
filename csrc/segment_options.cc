#include "segment_options.h"

#include <stdexcept>
#include <utility>

namespace asr_stream {

std::shared_ptr<const SegmentOptions> checked(std::shared_ptr<const SegmentOptions> options) {
  if (!options) throw std::invalid_argument("a segment needs options");
  const auto require = [](bool condition, const char* name, std::int64_t value) {
    if (condition) return;
    throw std::invalid_argument(std::string(name) + " must be at least 1, got " + std::to_string(value));
  };
  require(options->chunk_size >= 1, "chunk_size", options->chunk_size);
  require(options->max_full_context >= 1, "max_full_context", options->max_full_context);
  require(options->num_rescored >= 1, "num_rescored", options->num_rescored);
  if (options->search == SegmentOptions::Search::kGreedy && (options->fusion || options->phrases)) {
    throw std::invalid_argument(
        "search greedy takes no language model, hotwords or phrases; use search beam or rescore");
  }
  if (options->fusion && options->phrases) {
    throw std::invalid_argument("phrases are a grammar: they take no language model and no hotwords");
  }
  if (options->phrases && options->phrases->num_model_tokens() != static_cast<std::int64_t>(options->tokens.size())) {
    throw std::invalid_argument("the phrases were given " + std::to_string(options->phrases->num_model_tokens()) +
                                " tokens, the segment " + std::to_string(options->tokens.size()));
  }
  if (options->fusion && options->fusion->over_phones() &&
      options->fusion->num_tokens() != 1 + 2 * options->phones.size()) {
    throw std::invalid_argument("the fusion is over " + std::to_string(options->fusion->num_tokens() / 2) +
                                " phones, the segment has " + std::to_string(options->phones.size()));
  }
  check_option("rescore_ctc_weight", options->rescore_ctc_weight);
  return options;
}

}  // namespace asr_stream
