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
#include "search/joint_search.h"
#include "search/lm_fusion.h"
#include "search/neural_lm.h"
#include "search/phrases.h"

namespace asr_stream {

// In encoder frames, 5 s: maximum length of a run in the second pass. With longer windows, finals have no fewer errors
// (docs/lab/tried.md), are later, and need more memory.
inline constexpr std::int64_t kSecondPassWindow = 125;

// The warning for a model with phones but without a language model.
inline constexpr char kNoLanguageModel[] =
    "used without a language model: it spells words by their sound, and most are wrong";

struct PunctuationMetadata;
struct TextOptions;

// The recognition options of a segment and the models that it uses. Immutable once a segment has them; shared by any
// number of segments.
struct SegmentOptions {
  // Throws std::invalid_argument for a value out of range.
  explicit SegmentOptions(const Options& options = Options());

  Options options;  // with no value left unset
  std::vector<std::string> tokens;  // UTF-8 spelling of every token id, as `words` takes them; id 0 is the CTC blank
  // Names of the phones of the model's second head; empty if it has none. With a fusion over phones, the search is over
  // these (see `LmFusion`), and the decoder does not rescore.
  std::vector<std::string> phones;
  std::int64_t chunk_size;  // encoder frames per step
  std::int64_t second_pass_window = kSecondPassWindow;
  CtcPrefixBeamSearchOptions beam;
  std::shared_ptr<const LmFusion> fusion;  // language model and hotwords of the beam, or null
  std::shared_ptr<const NeuralLmMetadata> neural_lm;  // rescores finals, or null
  bool has_decoder = false;  // without one, nothing rescores, and joint is refused
  // A grammar that replaces free speech, or null. It has its own search, without fusion, beam or decoder.
  std::shared_ptr<const Phrases> phrases;
  JointSearchOptions joint;
  EndpointerOptions endpointer;
  Calibration calibration;  // of the model
  // Applies `measured`, also to the endpoints.
  void calibrate(const Calibration& measured);
  std::int64_t num_phone_tokens() const noexcept { return static_cast<std::int64_t>(1 + 2 * phones.size()); }
  // Whether the search is over phones.
  bool over_phones() const noexcept {
    return (fusion && fusion->over_phones()) || (phrases && phrases->over_phones());
  }
  // Whether the decoder rescores finals, or searches them together with CTC.
  bool rescores() const { return options.search == kRescore && has_decoder && !phrases && !over_phones(); }
  bool searches_jointly() const noexcept { return options.search == kJoint; }
  bool uses_decoder() const { return rescores() || searches_jointly(); }
  // Sentences: why most words are wrong, the skipped lines, that a punctuation network is not used.
  std::vector<std::string> warnings;
  std::vector<std::string> skipped_lines;  // one sentence for each line of a list that cannot be used
  std::string punctuation_warning;         // empty if the network is used, or there is none
  std::shared_ptr<const TextOptions> text;  // how a stream formats its words (text/formatter.h); null: not at all
  // Whether partials hide this word, and those after it, until it is stable: an obscene one may be the beginning of
  // another word.
  bool hides_fragment(const std::string& word) const;
};

LmFusionOptions lm_weights(const Options& options);
// The fusion of the language model, which may be null, and the hotwords; null if there are neither, or for phrases.
std::shared_ptr<const LmFusion> new_fusion(const Options& options, std::shared_ptr<const NgramLm> lm,
                                           const ModelMetadata& metadata);
// The grammar of the phrases; null without any. lm: pronounces the words; may be null.
std::shared_ptr<const Phrases> new_phrases(const Options& options, const NgramLm* lm, const ModelMetadata& metadata);

Options resolved(const Options& options, const ModelMetadata& metadata);
// The open models that streams share; each may be null.
struct Assets {
  std::shared_ptr<const LmFusion> fusion;
  std::shared_ptr<const Phrases> phrases;  // instead of fusion
  std::shared_ptr<const PunctuationMetadata> punctuation;
  std::shared_ptr<const NeuralLmMetadata> neural_lm;
  std::shared_ptr<const DecoderMetadata> decoder;  // for the searches rescore and joint
};
// The options for streams of a model file.
std::shared_ptr<SegmentOptions> segment_options(const Options& options, const ModelMetadata& metadata,
                                                const Assets& assets);

// Returns the options. Throws std::invalid_argument for null, for values out of range, and for values that contradict
// each other.
std::shared_ptr<const SegmentOptions> checked(std::shared_ptr<const SegmentOptions> options);

}  // namespace asr_stream
