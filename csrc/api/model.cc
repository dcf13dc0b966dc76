#include "api/model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "api/failure.h"
#include "onnx_file.h"
#include "search/spelling.h"

namespace asr_stream {

namespace {

std::map<std::string, std::string> properties_of(std::string_view onnx, const std::string& name,
                                                 bool has_checksum = true) {
  try {
    return read_onnx_properties(onnx, has_checksum);
  } catch (const std::invalid_argument& error) {
    throw DamagedFileError(name + " is not an ONNX file, or it is damaged: " + error.what() + "; " + kExportAgain);
  }
}

// Adds the properties that every model has, for files that do not state them.
void add_derived(std::map<std::string, std::string>& properties, const ModelMetadata& metadata) {
  const std::vector<std::string> texts = token_texts(metadata.output_symbols());
  const bool letters = std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return std::count_if(text.begin(), text.end(), begins_letter) <= 1;
  });
  properties.emplace("language", metadata.language);
  properties.emplace("chunk_ms", std::to_string(metadata.default_chunk_size * kEncoderFrameMs));
  properties.emplace("left_context_ms", std::to_string(metadata.default_left_context * kEncoderFrameMs));
  properties.emplace("units", letters ? "letters" : "word pieces");
  properties.emplace("license", "");
}

std::shared_ptr<const NgramLm> lm_of(const ModelOptions& options) {
  if (options.lm.empty()) return nullptr;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(options.lm.data());
  return undamaged(options.lm_name, "", [&] { return std::make_shared<const NgramLm>(bytes, options.lm.size()); });
}

template <std::size_t N>
std::vector<std::string> names_of(const char* const (&names)[N]) {
  return {names, names + N};
}

constexpr std::size_t kNumInputs = std::size(kEncoderInputs), kNumOutputs = std::size(kEncoderOutputs);

// Whether a graph declares these sizes; dynamic sizes are negative.
bool same_sizes(const Shape& declared, const Shape& wanted) {
  const auto same = [](std::int64_t a, std::int64_t b) { return a == b || (a < 0 && b < 0); };
  return std::equal(declared.begin(), declared.end(), wanted.begin(), wanted.end(), same);
}

}  // namespace

Model::Model(std::string_view onnx, const std::string& name, ModelOptions options)
    : options_(std::move(options)),
      name_(name),
      properties_(properties_of(onnx, name)),
      metadata_(undamaged(name, "", [this] { return ModelMetadata(properties_); })),
      lm_(lm_of(options_)),
      runtime_(OnnxRuntime::load(options_.onnxruntime_path)),
      encoder_(runtime_, onnx, name, options_.num_threads, metadata_.encoder_inputs(), metadata_.encoder_outputs()) {
  properties_.erase("decoder_onnx");  // as large as everything else; the metadata has it
  add_derived(properties_, metadata_);
  options_.lm = std::string();          // lm_ has a copy
  if (!options_.punctuation.empty()) {
    punctuation_ = std::make_unique<const PunctuationModel>(runtime_, options_.punctuation, options_.punctuation_name,
                                                            options_.num_threads);
    options_.punctuation = std::string();
  }
  if (!options_.neural_lm.empty()) {
    neural_lm_ = std::make_unique<const NeuralLmModel>(runtime_, options_.neural_lm, options_.neural_lm_name,
                                                       options_.num_threads);
    options_.neural_lm = std::string();
  }
  check_shapes();
  fusion(Options(), true, std::nullopt);  // built now, because the lexicon takes most of a second
  // The first run of a graph takes several times as long, and must not delay the first words.
  Cache cache = new_cache(1);
  const EncoderStep silence{0, true, true, std::vector<float>(7 * kNumBins), 7, 7};
  undamaged<std::runtime_error>(name, " is damaged: its graph cannot be run", [&] { step(silence, cache); });
  if (!lm_ && !metadata_.phones.empty()) log(false, name + " is " + kNoLanguageModel + "; name one with lm_path");
  log(false, name + " opened with " + runtime_.description());
}

std::shared_ptr<const LmFusion> Model::fusion(const Options& given, bool use_lm,
                                              const std::optional<std::string>& hotwords) const {
  const auto make = [&] { return new_fusion(given, use_lm ? lm_ : nullptr, metadata_, hotwords); };
  if (!lm_ || !use_lm || hotwords) return make();
  const std::lock_guard<std::mutex> lock(fusion_mutex_);
  const LmFusionOptions weights = lm_weights(resolved(given, metadata_));
  if (!fusion_ || std::memcmp(&weights, &fusion_weights_, sizeof weights) != 0) {
    fusion_ = make();
    fusion_weights_ = weights;
  }
  return fusion_;
}

void Model::check_shapes() const {
  const auto& meta = metadata_;
  const std::vector<std::string> inputs = meta.encoder_inputs(), outputs = meta.encoder_outputs();
  const auto require = [&](bool condition, const std::string& tensor) {
    if (condition) return;
    throw DamagedFileError(name_ + " is damaged: its graph has another size of " + tensor +
                           " than its metadata says; " + kExportAgain);
  };
  require(same_sizes(encoder_.input_shape(0), {-1, -1, kNumBins}), inputs[0]);
  require(same_sizes(encoder_.output_shape(0), {-1, -1, meta.vocab_size()}), outputs[0]);
  require(same_sizes(encoder_.output_shape(1), {-1, -1, meta.dim}), outputs[1]);
  for (std::size_t i = 0; i < meta.states.size(); ++i) {
    const Shape& sizes = meta.states[i].sizes;
    require(same_sizes(encoder_.input_shape(kNumInputs + i), sizes), inputs[kNumInputs + i]);
    require(same_sizes(encoder_.output_shape(kNumOutputs + i), sizes), outputs[kNumOutputs + i]);
  }
  if (!meta.phones.empty()) {
    const std::size_t last = outputs.size() - 1;
    require(same_sizes(encoder_.output_shape(last), {-1, -1, meta.num_phone_tokens()}), outputs[last]);
  }
}

Cache Model::new_cache(std::int64_t left_context) const {
  Cache cache;
  for (const StateTensor& state : metadata_.states) {
    cache.push_back(
        Tensor::zeros(runtime_, state.is_integer ? ort::kInt64 : ort::kFloat, state.shape(1, left_context)));
  }
  return cache;
}

Model::Step Model::step(const EncoderStep& step, Cache& cache) const {
  const Tensor features = Tensor::view(runtime_, step.features, {1, step.num_frames, kNumBins});
  const std::vector<std::int64_t> num_valid{step.num_valid};
  const Tensor valid = Tensor::view(runtime_, num_valid, {1});
  std::vector<const Tensor*> inputs{&features, &valid};
  for (const Tensor& state : cache) inputs.push_back(&state);
  Step result;
  result.outputs = encoder_.run(inputs);
  const std::int64_t num_frames = (step.num_frames - kFeatureOverlap) / kSubsampling;
  const auto rows = [&](std::size_t output, std::int64_t num_columns, const char* name) {
    return Rows{result.outputs[output].floats({1, num_frames, num_columns}, name), num_frames, num_columns};
  };
  result.log_probs = rows(0, metadata_.vocab_size(), kEncoderOutputs[0]);
  result.encoder_out = rows(1, metadata_.dim, kEncoderOutputs[1]);
  if (!metadata_.phones.empty()) {
    result.phone_log_probs = rows(result.outputs.size() - 1, metadata_.num_phone_tokens(), kPhoneOutput);
  }
  for (std::size_t i = 0; i < cache.size(); ++i) cache[i] = std::move(result.outputs[kNumOutputs + i]);
  return result;
}

std::vector<float> Model::score(const DecoderScoring& scoring) const {
  const auto count = static_cast<std::int64_t>(scoring.tokens.size());
  std::size_t longest = 1;
  for (const auto& tokens : scoring.tokens) longest = std::max(longest, tokens.size());
  std::vector<std::int64_t> padded(scoring.tokens.size() * longest), lengths;
  for (std::size_t i = 0; i < scoring.tokens.size(); ++i) {
    const auto start = padded.begin() + static_cast<std::ptrdiff_t>(i * longest);
    std::copy(scoring.tokens[i].begin(), scoring.tokens[i].end(), start);
    lengths.push_back(static_cast<std::int64_t>(scoring.tokens[i].size()));
  }
  const Tensor tokens = Tensor::view(runtime_, padded, {count, static_cast<std::int64_t>(longest)});
  const Tensor token_lengths = Tensor::view(runtime_, lengths, {count});
  const Tensor encoder_out = Tensor::view(runtime_, scoring.encoder_out, {1, scoring.num_frames, metadata_.dim});
  const std::vector<Tensor> outputs =
      decoder_->run({&tokens, &token_lengths, &encoder_out}, std::size(kDecoderOutputs));
  const float* scores = outputs[0].floats({count}, kDecoderOutputs[0]);
  return std::vector<float>(scores, scores + count);
}

Model::Decoded Model::decode(const DecoderStep& step, DecoderCache& cache) const {
  const auto count = static_cast<std::int64_t>(step.tokens.size());
  const std::int64_t layers = metadata_.num_decoder_layers, dim = metadata_.dim;
  if (step.begins()) {
    cache = DecoderCache();
    for (Tensor* none : {&cache.memory_keys, &cache.memory_values}) {
      *none = Tensor::zeros(runtime_, ort::kFloat, {1, layers, 0, dim});
    }
  }
  const std::int64_t size = layers * cache.num_tokens * dim;  // of a hypothesis
  const Shape shape{count, layers, cache.num_tokens, dim};
  std::vector<float> keys, values;
  const auto select = [&](const Tensor& from, std::vector<float>& to) {
    if (cache.num_tokens == 0) return Tensor::zeros(runtime_, ort::kFloat, shape);
    const float* rows = from.floats({cache.num_hypotheses, layers, cache.num_tokens, dim}, "a cache");
    for (const std::int64_t parent : step.parents) {
      to.insert(to.end(), rows + parent * size, rows + (parent + 1) * size);
    }
    return Tensor::view(runtime_, to, shape);
  };
  const std::vector<std::int64_t> no_lengths(step.tokens.size());
  const Tensor tokens = Tensor::zeros(runtime_, ort::kInt64, {count, 0});
  const Tensor lengths = Tensor::view(runtime_, no_lengths, {count});
  const Shape frames{1, step.begins() ? step.num_frames : 0, dim};
  const Tensor encoder_out = step.begins() ? Tensor::view(runtime_, step.encoder_out, frames)
                                           : Tensor::zeros(runtime_, ort::kFloat, frames);
  const Tensor previous = Tensor::view(runtime_, step.tokens, {count});
  const Tensor past_keys = select(cache.keys, keys), past_values = select(cache.values, values);
  Decoded result;
  result.outputs = decoder_->run({&tokens, &lengths, &encoder_out, &previous, &past_keys, &past_values,
                                  &cache.memory_keys, &cache.memory_values});
  const std::int64_t vocab_size = metadata_.vocab_size();
  result.log_probs = {result.outputs[1].floats({count, 1, vocab_size}, kDecoderStepOutputs[0]), count, vocab_size};
  cache = {count,
           cache.num_tokens + 1,
           std::move(result.outputs[2]),
           std::move(result.outputs[3]),
           std::move(result.outputs[4]),
           std::move(result.outputs[5])};
  return result;
}

void Model::open_decoder(bool by_steps) const {
  const bool has_steps = metadata_.num_decoder_layers > 0;
  if (metadata_.decoder_onnx.empty() || (by_steps && !has_steps)) {
    throw std::invalid_argument(std::string("the model has no decoder to ") +
                                (by_steps ? "search" : "rescore") + " with: use search beam, or export it again");
  }
  const std::lock_guard<std::mutex> lock(decoder_mutex_);
  if (decoder_) return;
  const std::string name = "the decoder in " + name_;
  properties_of(metadata_.decoder_onnx, name, false);
  std::vector<std::string> outputs = names_of(kDecoderOutputs), with_defaults;
  if (has_steps) {
    outputs.insert(outputs.end(), std::begin(kDecoderStepOutputs), std::end(kDecoderStepOutputs));
    with_defaults = names_of(kDecoderPast);
  }
  decoder_ = std::make_unique<const Session>(runtime_, metadata_.decoder_onnx, name, options_.num_threads,
                                             names_of(kDecoderInputs), std::move(outputs), with_defaults);
}

void Model::log(bool is_error, const std::string& text) const {
  if (options_.log) options_.log(is_error, text.c_str());
}

std::string read_file(const std::string& path) {
  const std::filesystem::path file = std::filesystem::u8path(path);
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(file, error).type();
  if (type == std::filesystem::file_type::not_found) throw FileError("there is no file " + path);
  if (type == std::filesystem::file_type::directory) throw FileError(path + " is a folder; name a file in it");
  if (type == std::filesystem::file_type::none) {
    throw FileError("file " + path + " cannot be read: " + error.message());
  }
  if (type != std::filesystem::file_type::regular) {
    throw FileError(path + " is a pipe or a device; name a file");
  }
  std::ifstream stream(file, std::ios::binary);
  std::string bytes;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (stream && !error) {
    bytes.resize(static_cast<std::size_t>(size));
    stream.read(bytes.data(), static_cast<std::streamsize>(size));
  }
  if (!stream || error) throw FileError("file " + path + " cannot be read");
  return bytes;
}

}  // namespace asr_stream
