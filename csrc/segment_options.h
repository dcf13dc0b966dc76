// The configuration of a segment: its search, its models and its endpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibration.h"
#include "metadata.h"
#include "options.h"
#include "search/ctc_prefix_beam_search.h"
#include "search/endpointer.h"
#include "search/lm_fusion.h"
#include "search/neural_lm.h"
#include "search/phrases.h"

namespace asr_stream {

// Encoder frames, 5 s, that a run of the second pass encodes at most. With longer windows finals have no fewer errors
// (docs/lab/ablations.md), come later and take more memory.
inline constexpr std::int64_t kSecondPassWindow = 125;

// The warning of a model with phones and no language model.
inline constexpr char kNoLanguageModel[] =
    "used without a language model: it spells words by their sound, and most are wrong";

struct PunctuationMetadata;
struct TextOptions;

// Options of recognition, as a segment uses them, and the models that it recognizes with. Immutable once a segment has
// them; shared by any number.
struct SegmentOptions {
  enum class Search { kGreedy = ASR_SEARCH_GREEDY, kBeam = ASR_SEARCH_BEAM, kRescore = ASR_SEARCH_RESCORE };

  // std::invalid_argument for a value out of its range.
  explicit SegmentOptions(const Options& options = Options());

  std::vector<std::string> tokens;  // UTF-8 spelling of every token id, as `words` takes them; id 0 is the CTC blank
  // Names of the phones of the model's second head; empty: it has none. With a fusion over phones the search is over
  // its tokens (see `LmFusion`), and the decoder does not rescore.
  std::vector<std::string> phones;
  std::int64_t chunk_size;  // encoder frames per step
  bool second_pass;         // finals come from encoding the utterance once more, see second_pass.h
  std::int64_t second_pass_window = kSecondPassWindow;
  Search search;
  CtcPrefixBeamSearchOptions beam;
  std::shared_ptr<const LmFusion> fusion;  // language model and hotwords of the beam, or null
  std::shared_ptr<const NeuralLmMetadata> neural_lm;  // rescores finals of a search over phones; or null
  // A grammar in place of free speech, or null. It has a search of its own, without fusion, beam and decoder.
  std::shared_ptr<const Phrases> phrases;
  std::int64_t num_rescored;
  std::int64_t max_alternatives;
  double rescore_ctc_weight;  // see `best_rescored`
  EndpointerOptions endpointer;
  Calibration calibration;  // of the model
  // Takes it, for the endpoints too.
  void calibrate(const Calibration& measured);
  std::int64_t num_phone_tokens() const noexcept { return static_cast<std::int64_t>(1 + 2 * phones.size()); }
  // Whether the search is over phones.
  bool over_phones() const noexcept {
    return (fusion && fusion->over_phones()) || (phrases && phrases->over_phones());
  }
  // Whether the decoder takes part.
  bool rescores() const { return search == Search::kRescore && !phrases && !over_phones(); }
  std::vector<std::string> warnings;  // sentences: why most words are wrong; the lines of lists that are left out
  std::shared_ptr<const TextOptions> text;  // how a stream shows its words (text/formatter.h); none: as they are
};

LmFusionOptions lm_weights(const Options& options);
// `new_fusion` with the weights and the boost of the options. hotwords: a list, one a line, or none.
std::shared_ptr<const LmFusion> new_fusion(const Options& options, std::shared_ptr<const NgramLm> lm,
                                           const std::vector<std::string>& tokens,
                                           const std::vector<std::string>& phones,
                                           const std::optional<std::string>& hotwords);

// Lists that people write, one entry a line; none: it is not given.
struct Lists {
  std::optional<std::string> hotwords, phrases, mask, replace, command_list;
};

Options resolved(const Options& options, const ModelMetadata& metadata);
// For streams of a model file. fusion, which the phrases take the place of, punctuation and neural_lm: or null. lm:
// pronounces the phrases, or null.
std::shared_ptr<const SegmentOptions> segment_options(const Options& options, const ModelMetadata& metadata,
                                                      std::shared_ptr<const LmFusion> fusion, const Lists& lists,
                                                      std::shared_ptr<const PunctuationMetadata> punctuation,
                                                      std::shared_ptr<const NeuralLmMetadata> neural_lm = nullptr,
                                                      const NgramLm* lm = nullptr);

// The options themselves. Errors: std::invalid_argument for none, and for values that are out of range or that do not
// go together.
std::shared_ptr<const SegmentOptions> checked(std::shared_ptr<const SegmentOptions> options);

}  // namespace asr_stream
