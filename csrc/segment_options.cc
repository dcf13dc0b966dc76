#include "segment_options.h"

#include <stdexcept>
#include <utility>

#include "search/hotwords.h"
#include "search/words.h"
#include "text/formatter.h"
#include "text/letter_case.h"

namespace asr_stream {

namespace {

// Throws std::invalid_argument if the pieces can spell fewer than half of the tokens.
void require_pieces(const WordPieces& pieces, const std::vector<std::string>& tokens) {
  std::size_t num_texts = 0, num_spelled = 0;
  std::string example;
  for (const std::string& token : tokens) {
    const std::string text = token.substr(begins_word(token) ? kWordBoundary.size() : 0);
    if (text.empty()) continue;
    ++num_texts;
    if (!pieces.of(text).empty()) {
      ++num_spelled;
    } else if (example.empty()) {
      example = text;
    }
  }
  if (2 * num_spelled >= num_texts) return;
  throw std::invalid_argument("the neural language model can spell " + std::to_string(num_spelled) + " of the " +
                              std::to_string(num_texts) + " tokens of the recognizer, and not '" + example +
                              "'; train it on text in their case and script");
}

// Throws std::invalid_argument for a decoder of another model.
void require_same_model(const DecoderMetadata& decoder, const ModelMetadata& metadata) {
  if (decoder.tokens == metadata.tokens && decoder.dim == metadata.dim) return;
  const auto text = [](const auto& read) {
    return std::to_string(read.tokens.size()) + " tokens and vectors of " + std::to_string(read.dim);
  };
  const bool same_sizes = text(decoder) == text(metadata);
  throw std::invalid_argument("the decoder belongs to another model: it has " + text(decoder) + ", the model " +
                              (same_sizes ? "other tokens" : text(metadata)) +
                              "; give the file that `asr export` wrote beside the model, or none");
}

}  // namespace

SegmentOptions::SegmentOptions(const Options& given) {
  check(given);
  options = resolved(given);
  chunk_size = options.chunk_ms / kEncoderFrameMs;
  beam = {options.beam_size, 0, options.beam_threshold, true};
  joint.ctc_weight = options.joint_ctc_weight;
  endpointer = {options.silence_after_speech_s, options.min_silence_after_speech_s, options.silence_without_speech_s,
                options.max_utterance_s};
}

void SegmentOptions::calibrate(const Calibration& measured) {
  calibration = measured;
  endpointer.with_punctuation = measured.endpoint_with_punctuation;
  endpointer.without_punctuation = measured.endpoint_without_punctuation;
}

bool SegmentOptions::hides_fragment(const std::string& word) const {
  return text && text->language && text->language->is_obscene(to_lower(word));
}

LmFusionOptions lm_weights(const Options& options) {
  return {static_cast<float>(options.lm_weight), static_cast<float>(options.lm_word_bonus),
          static_cast<float>(options.lm_oov_penalty), static_cast<float>(options.lm_prior_weight)};
}

std::shared_ptr<const LmFusion> new_fusion(const Options& options, std::shared_ptr<const NgramLm> lm,
                                           const ModelMetadata& metadata) {
  if (!options.use_lm) lm = nullptr;
  if (options.phrases || (!lm && !options.hotwords)) return nullptr;
  const std::vector<std::string> tokens = metadata.output_symbols();
  std::shared_ptr<const Hotwords> found;
  if (options.hotwords) {
    const NgramLm* pronouncing = have_phones(lm.get(), metadata.phones) ? lm.get() : nullptr;
    found = std::make_shared<const Hotwords>(*options.hotwords, tokens, static_cast<float>(options.hotword_boost),
                                             pronouncing);
  }
  return std::make_shared<const LmFusion>(std::move(lm), tokens, lm_weights(resolved(options, metadata)),
                                          std::move(found), metadata.phones);
}

std::shared_ptr<const Phrases> new_phrases(const Options& options, const NgramLm* lm, const ModelMetadata& metadata) {
  if (!options.phrases) return nullptr;
  return std::make_shared<const Phrases>(*options.phrases, metadata.output_symbols(),
                                         static_cast<float>(options.unknown_cost), metadata.phones,
                                         options.use_lm ? lm : nullptr);
}

Options resolved(const Options& options, const ModelMetadata& metadata) {
  return resolved(options, {metadata.default_chunk_size, metadata.default_left_context, metadata.rescore_ctc_weight,
                            metadata.calibration.lm_weights});
}

std::shared_ptr<SegmentOptions> segment_options(const Options& options, const ModelMetadata& metadata,
                                                const Assets& assets) {
  auto segment = std::make_shared<SegmentOptions>(resolved(options, metadata));
  segment->tokens = metadata.output_symbols();
  segment->phones = metadata.phones;
  segment->calibrate(metadata.calibration);
  if (assets.phrases && options.hotwords) {
    throw std::invalid_argument("phrases are a grammar, which takes no hotwords; give one of the two");
  }
  segment->phrases = assets.phrases;
  segment->fusion = assets.fusion;
  if (!segment->phrases && options.use_lm) segment->neural_lm = assets.neural_lm;
  if (assets.decoder) require_same_model(*assets.decoder, metadata);
  segment->has_decoder = assets.decoder != nullptr;
  const Hotwords* hotwords = segment->fusion ? segment->fusion->hotwords() : nullptr;
  segment->text = text_options(options, metadata.language, assets.punctuation,
                               hotwords ? hotwords->written_forms() : std::vector<WrittenForm>());
  const auto skip = [&segment](const std::vector<std::string>& lines) {
    segment->skipped_lines.insert(segment->skipped_lines.end(), lines.begin(), lines.end());
  };
  if (hotwords) skip(hotwords->warnings());
  if (segment->phrases) skip(segment->phrases->warnings());
  if (segment->text) skip(segment->text->warnings);
  if (assets.punctuation && !(segment->text && segment->text->punctuation)) {
    segment->punctuation_warning = "the model for case and punctuation is not used: there are no rules for the text of "
                                   "language '" + metadata.language + "'";
  }
  const bool needs_lm = options.search == kBeam || options.search == kRescore;
  if (!segment->phones.empty() && !segment->over_phones() && !segment->phrases && needs_lm) {
    segment->warnings.push_back(std::string("the model is ") + kNoLanguageModel);
  }
  segment->warnings.insert(segment->warnings.end(), segment->skipped_lines.begin(), segment->skipped_lines.end());
  if (!segment->punctuation_warning.empty()) segment->warnings.push_back(segment->punctuation_warning);
  checked(segment);
  return segment;
}

std::shared_ptr<const SegmentOptions> checked(std::shared_ptr<const SegmentOptions> options) {
  if (!options) throw std::invalid_argument("a segment needs options");
  const auto require = [](bool condition, const char* name, std::int64_t value) {
    if (condition) return;
    throw std::invalid_argument(std::string(name) + " must be at least 1, got " + std::to_string(value));
  };
  require(options->chunk_size >= 1, "chunk_size", options->chunk_size);
  require(options->second_pass_window >= 1, "second_pass_window", options->second_pass_window);
  if ((options->options.search == kGreedy || options->searches_jointly()) &&
      (options->fusion || options->phrases)) {
    throw std::invalid_argument(std::string("search ") + (options->searches_jointly() ? "joint" : "greedy") +
                                " takes no language model, hotwords or phrases; use search beam or rescore");
  }
  if (options->searches_jointly() && !options->has_decoder) {
    throw std::invalid_argument("search joint needs the decoder: give the file NAME.decoder.onnx that `asr export` "
                                "writes beside the model, or use search beam");
  }
  if (options->neural_lm && options->options.search == kGreedy) {
    throw std::invalid_argument("search greedy takes no neural language model, which compares sentences; use search "
                                "beam, rescore or joint, or none");
  }
  if (options->neural_lm && !options->over_phones()) require_pieces(options->neural_lm->pieces, options->tokens);
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
  check(options->options);
  check_option("rescore_ctc_weight", options->options.rescore_ctc_weight);  // not a number: unset in `check`
  check_option("joint_ctc_weight", options->joint.ctc_weight);
  return options;
}

}  // namespace asr_stream
