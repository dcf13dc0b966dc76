#include "segment_options.h"

#include <stdexcept>
#include <utility>

#include "search/hotwords.h"
#include "text/formatter.h"

namespace asr_stream {

SegmentOptions::SegmentOptions(const Options& given) {
  check(given);
  const Options options = resolved(given);
  chunk_size = options.chunk_ms / kEncoderFrameMs;
  second_pass = options.second_pass != 0;
  search = static_cast<Search>(options.search);
  beam = {options.beam_size, 0, options.beam_threshold, true};
  num_rescored = options.num_rescored;
  max_alternatives = options.max_alternatives;
  rescore_ctc_weight = options.rescore_ctc_weight;
  joint.ctc_weight = options.joint_ctc_weight;
  endpointer = {options.silence_after_speech_s, options.min_silence_after_speech_s, options.silence_without_speech_s,
                options.max_utterance_s};
}

void SegmentOptions::calibrate(const Calibration& measured) {
  calibration = measured;
  endpointer.with_punctuation = measured.endpoint_with_punctuation;
  endpointer.without_punctuation = measured.endpoint_without_punctuation;
}

LmFusionOptions lm_weights(const Options& options) {
  return {static_cast<float>(options.lm_weight), static_cast<float>(options.lm_word_bonus),
          static_cast<float>(options.lm_oov_penalty), static_cast<float>(options.lm_prior_weight)};
}

std::shared_ptr<const LmFusion> new_fusion(const Options& options, std::shared_ptr<const NgramLm> lm,
                                           const std::vector<std::string>& tokens,
                                           const std::vector<std::string>& phones,
                                           const std::optional<std::string>& hotwords) {
  if (!lm && !hotwords) return nullptr;
  std::shared_ptr<const Hotwords> found;
  if (hotwords) {
    const NgramLm* pronouncing = have_phones(lm.get(), phones) ? lm.get() : nullptr;
    found = std::make_shared<const Hotwords>(*hotwords, tokens, static_cast<float>(options.hotword_boost), pronouncing);
  }
  return std::make_shared<const LmFusion>(std::move(lm), tokens, lm_weights(options), std::move(found), phones);
}

Options resolved(const Options& options, const ModelMetadata& metadata) {
  return resolved(options, {metadata.default_chunk_size, metadata.default_left_context, metadata.rescore_ctc_weight,
                            metadata.calibration.lm_weights});
}

std::shared_ptr<const SegmentOptions> segment_options(const Options& options, const ModelMetadata& metadata,
                                                      std::shared_ptr<const LmFusion> fusion, const Lists& lists,
                                                      std::shared_ptr<const PunctuationMetadata> punctuation,
                                                      std::shared_ptr<const NeuralLmMetadata> neural_lm,
                                                      const NgramLm* lm) {
  auto segment = std::make_shared<SegmentOptions>(resolved(options, metadata));
  segment->tokens = metadata.output_symbols();
  segment->phones = metadata.phones;
  segment->calibrate(metadata.calibration);
  if (lists.phrases && lists.hotwords) {
    throw std::invalid_argument("phrases are a grammar, which takes no hotwords; give one of the two");
  }
  if (lists.phrases) {
    segment->phrases = std::make_shared<const Phrases>(*lists.phrases, segment->tokens,
                                                       static_cast<float>(options.unknown_cost), segment->phones, lm);
  } else {
    segment->fusion = std::move(fusion);
    segment->neural_lm = std::move(neural_lm);
  }
  const Hotwords* hotwords = segment->fusion ? segment->fusion->hotwords() : nullptr;
  if (hotwords) segment->warnings = hotwords->warnings();
  const bool needs_lm = segment->search == SegmentOptions::Search::kBeam || segment->rescores();
  if (!segment->phones.empty() && !segment->over_phones() && !segment->phrases && needs_lm) {
    segment->warnings.insert(segment->warnings.begin(), std::string("the model is ") + kNoLanguageModel);
  }
  segment->text = text_options({options.text == ASR_TEXT_FORMATTED, metadata.language, std::move(punctuation),
                                lists.mask, options.commands != 0, lists.command_list, lists.replace,
                                hotwords ? hotwords->written_forms() : std::vector<WrittenForm>(),
                                static_cast<EnglishSpelling>(options.spelling)});
  return checked(segment);
}

std::shared_ptr<const SegmentOptions> checked(std::shared_ptr<const SegmentOptions> options) {
  if (!options) throw std::invalid_argument("a segment needs options");
  const auto require = [](bool condition, const char* name, std::int64_t value) {
    if (condition) return;
    throw std::invalid_argument(std::string(name) + " must be at least 1, got " + std::to_string(value));
  };
  require(options->chunk_size >= 1, "chunk_size", options->chunk_size);
  require(options->second_pass_window >= 1, "second_pass_window", options->second_pass_window);
  require(options->num_rescored >= 1, "num_rescored", options->num_rescored);
  if ((options->search == SegmentOptions::Search::kGreedy || options->searches_jointly()) &&
      (options->fusion || options->phrases)) {
    throw std::invalid_argument(std::string("search ") + (options->searches_jointly() ? "joint" : "greedy") +
                                " takes no language model, hotwords or phrases; use search beam or rescore");
  }
  if (options->fusion && options->phrases) {
    throw std::invalid_argument("phrases are a grammar: they take no language model and no hotwords");
  }
  const auto num_letters = static_cast<std::int64_t>(options->tokens.size());
  const std::int64_t num_tokens = options->over_phones() ? options->num_phone_tokens() : num_letters;
  const auto require_tokens = [num_tokens](const char* what, std::int64_t found) {
    if (found == num_tokens) return;
    throw std::invalid_argument(std::string(what) + " were given " + std::to_string(found) + " tokens, the segment " +
                                std::to_string(num_tokens));
  };
  if (options->phrases) require_tokens("the phrases", options->phrases->num_model_tokens());
  if (options->fusion) {
    require_tokens("the language model or hotwords", static_cast<std::int64_t>(options->fusion->num_tokens()));
  }
  check_option("rescore_ctc_weight", options->rescore_ctc_weight);
  check_option("joint_ctc_weight", options->joint.ctc_weight);
  return options;
}

}  // namespace asr_stream
