// What a segment does: its search, its models and its endpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "contract.h"
#include "search/ctc_prefix_beam_search.h"
#include "search/endpointer.h"
#include "search/lm_fusion.h"
#include "search/neural_lm.h"
#include "search/phrases.h"

namespace asr_stream {

// Nats below the best at which a hypothesis is dropped: 10 makes 1 % more errors in the first pass, 12 no fewer, and
// takes a fifth more time in the search.
inline constexpr double kBeamThreshold = 11.0;
// Hypotheses that the decoder scores at most: it is what a final waits for.
inline constexpr std::int64_t kNumRescored = 4;
// Encoder frames, 30 s: the second pass takes longer utterances in chunks of this, which bounds its memory.
inline constexpr std::int64_t kMaxFullContext = 750;

struct TextOptions;

// Options of recognition. Immutable once a segment has them; shared by any number.
struct SegmentOptions {
  enum class Search { kGreedy, kBeam, kRescore };  // rescore: the attention decoder picks among those of the beam

  std::vector<std::string> tokens;  // UTF-8 spelling of every token id, as `words` takes them; id 0 is the CTC blank
  // Names of the phones of the model's second head, or none. With a fusion over phones the search is over its tokens
  // (see `LmFusion`), and there is no rescoring.
  std::vector<std::string> phones;
  std::int64_t chunk_size = 16;     // encoder frames per step
  bool second_pass = true;          // finals come from encoding the whole utterance once more
  std::int64_t max_full_context = kMaxFullContext;
  Search search = Search::kRescore;
  CtcPrefixBeamSearchOptions beam{kBeamSize, 0, kBeamThreshold, true};
  std::shared_ptr<const LmFusion> fusion;  // language model and hotwords of the beam, or none
  std::shared_ptr<const NeuralLmMetadata> neural_lm;  // which rescores finals of a search over phones, or none
  // A grammar in place of free speech, or none: it has a search of its own, without fusion, beam and decoder.
  std::shared_ptr<const Phrases> phrases;
  std::int64_t num_rescored = kNumRescored;
  double rescore_ctc_weight = option("rescore_ctc_weight").fallback;  // see `best_rescored`
  EndpointerOptions endpointer;
  std::shared_ptr<const TextOptions> text;  // how a stream shows its words (text/formatter.h); none: as they are
};

// The options themselves. Errors: std::invalid_argument for none, and for values that are out of range or that do not
// go together.
std::shared_ptr<const SegmentOptions> checked(std::shared_ptr<const SegmentOptions> options);

}  // namespace asr_stream
