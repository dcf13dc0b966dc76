#include "api/model.h"

#ifndef _WIN32
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "api/failure.h"
#include "onnx_file.h"
#include "search/spelling.h"
#include "utf8.h"

namespace asr_stream {

namespace {

std::map<std::string, std::string> properties_of(std::string_view onnx, const std::string& name) {
  try {
    return read_onnx_properties(onnx);
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
  if (options.lm.size == 0) return nullptr;
  return undamaged(options.lm_name, "", [&] { return std::make_shared<const NgramLm>(options.lm); });
}

template <typename Metadata>
std::shared_ptr<const Metadata> metadata_of(std::string_view onnx, const std::string& name) {
  return undamaged(name, "", [&] { return std::make_shared<const Metadata>(read_onnx_properties(onnx)); });
}

template <std::size_t N>
std::vector<std::string> names_of(const char* const (&names)[N]) {
  return {names, names + N};
}

PieceTree smallest_tree() {
  PieceTree tree;
  for (std::int64_t node = 0; tree.pieces.size() < PieceTree::kMinNodes; ++node) {
    tree.pieces.push_back(WordPieces::kSentenceEdge);
    tree.parents.push_back(std::max<std::int64_t>(node - 1, 0));
    tree.depths.push_back(node);
    tree.ends.push_back(PieceTree::kMinNodes);
  }
  return tree;
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
      runtime_(OnnxRuntime::load(options_.onnxruntime_path)) {
  open(Network::kEncoder, onnx, name, metadata_.encoder_inputs(), metadata_.encoder_outputs(), metadata_.states);
  add_derived(properties_, metadata_);
  options_.lm = {};
  if (const FileBytes file = std::exchange(options_.punctuation, {}); file.size != 0) {
    const std::string& called = options_.punctuation_name;
    punctuation_ = metadata_of<PunctuationMetadata>(file.view(), called);
    open(Network::kPunctuation, file.view(), called, names_of(kPunctuationInputs), names_of(kPunctuationOutputs));
    warm_up(punctuation_work(punctuation_units({"so"}, {}, SpecialUnit::kSentence, true)), called);
  }
  if (const FileBytes file = std::exchange(options_.neural_lm, {}); file.size != 0) {
    const std::string& called = options_.neural_lm_name;
    neural_lm_ = metadata_of<NeuralLmMetadata>(file.view(), called);
    open(Network::kNeuralLm, file.view(), called, names_of(kNeuralLmInputs), names_of(kNeuralLmOutputs));
    warm_up(tree_work(smallest_tree()), called);
  }
  if (const FileBytes file = std::exchange(options_.decoder, {}); file.size != 0) {
    const std::string& called = options_.decoder_name;
    decoder_ = metadata_of<DecoderMetadata>(file.view(), called);
    open(Network::kDecoder, file.view(), called, names_of(kDecoderInputs), decoder_->outputs(), decoder_->states);
    warm_up(decoder_work({{kUnkId}}, std::vector<float>(static_cast<std::size_t>(decoder_->dim)), decoder_->dim),
            called);
  }
  check_sizes();
  fusion(Options());  // built now, because the lexicon takes tens of milliseconds
  const EncoderStep silence{kStreamSlot, true, true, std::vector<float>(7 * kNumBins), 7, 7};
  warm_up(encoder_work(silence, {metadata_.vocab_size(), metadata_.dim, metadata_.num_phone_tokens(), 1}), name);
  if (!lm_ && !metadata_.phones.empty()) log(false, name + " is " + kNoLanguageModel + "; name one with lm");
  log(false, name + " opened with " + runtime_.description());
}

std::shared_ptr<const LmFusion> Model::fusion(const Options& given) const {
  const auto make = [&] { return new_fusion(given, lm_, metadata_); };
  if (!lm_ || !given.use_lm || given.hotwords || given.phrases) return make();
  const std::lock_guard<std::mutex> lock(fusion_mutex_);
  const LmFusionOptions weights = lm_weights(resolved(given, metadata_));
  if (!fusion_ || std::memcmp(&weights, &fusion_weights_, sizeof weights) != 0) {
    fusion_ = make();
    fusion_weights_ = weights;
  }
  return fusion_;
}

void Model::check_sizes() const {
  const auto& meta = metadata_;
  const Session& encoder = *graph(Network::kEncoder).session;
  const std::vector<std::string> inputs = meta.encoder_inputs(), outputs = meta.encoder_outputs();
  const auto require = [&](bool condition, const std::string& tensor) {
    if (condition) return;
    throw DamagedFileError(name_ + " is damaged: its graph has another size of " + tensor +
                           " than its metadata says; " + kExportAgain);
  };
  require(same_sizes(encoder.input_shape(0), {-1, -1, kNumBins}), inputs[0]);
  require(same_sizes(encoder.output_shape(0), {-1, -1, meta.vocab_size()}), outputs[0]);
  require(same_sizes(encoder.output_shape(1), {-1, -1, meta.dim}), outputs[1]);
  for (std::size_t i = 0; i < meta.states.size(); ++i) {
    const Shape& sizes = meta.states[i].sizes;
    require(same_sizes(encoder.input_shape(kNumInputs + i), sizes), inputs[kNumInputs + i]);
    require(same_sizes(encoder.output_shape(kNumOutputs + i), sizes), outputs[kNumOutputs + i]);
  }
  if (!meta.phones.empty()) {
    const std::size_t last = outputs.size() - 1;
    require(same_sizes(encoder.output_shape(last), {-1, -1, meta.num_phone_tokens()}), outputs[last]);
  }
}

void Model::open(Network network, std::string_view onnx, const std::string& name,
                 const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 std::vector<StateTensor> states) {
  Graph opened{std::make_unique<const Session>(runtime_, onnx, name, options_.num_threads, inputs, outputs),
               std::move(states), {}};
  for (const StateTensor& state : opened.states) opened.new_states.push_back("new_" + state.name);
  graphs_[static_cast<std::size_t>(network)] = std::move(opened);
}

// The first run of a graph takes several times as long, and must not delay the first words.
void Model::warm_up(const Work& work, const std::string& name) const {
  constexpr char kFault[] = " is damaged: its graph cannot be run";
  State state;
  const Run found = undamaged<std::runtime_error>(name, kFault, [&] { return run(work, state); });
  undamaged(name, kFault, [&] { check_shapes(work, found.answer); });
}

Model::Run Model::run(const Work& work, State& state) const {
  const Graph& of_work = graph(work.network);
  std::vector<const char*> inputs, outputs;
  std::vector<Tensor> made;
  std::vector<const Tensor*> tensors;
  made.reserve(work.inputs.size());
  for (const Input& input : work.inputs) {
    inputs.push_back(input.name);
    tensors.push_back(&made.emplace_back(Tensor::of(runtime_, input)));
  }
  for (const WantedOutput& output : work.outputs) outputs.push_back(output.name);
  if (work.state) {
    const StateUse& use = *work.state;
    if (use.begins) state.clear();
    for (std::size_t i = 0; i < of_work.states.size(); ++i) {
      const StateTensor& described = of_work.states[i];
      if (use.begins) {
        const auto type = described.is_integer ? ort::kInt64 : ort::kFloat;
        state.push_back(Tensor::zeros(runtime_, type, described.shape(1, use.left_context)));
      } else if (!use.parents.empty() && described.batch_axis < described.sizes.size()) {
        state[i] = state[i].taken(described.batch_axis, use.parents);
      }
      inputs.push_back(described.name.c_str());
      outputs.push_back(of_work.new_states[i].c_str());
    }
    for (const Tensor& tensor : state) tensors.push_back(&tensor);
  }
  Run result{of_work.session->run(inputs, tensors, outputs), {}};
  if (work.state) {
    const auto first = result.tensors.begin() + static_cast<std::ptrdiff_t>(work.outputs.size());
    state.assign(std::make_move_iterator(first), std::make_move_iterator(result.tensors.end()));
    if (work.state->keep == StateUse::Keep::kNot) state.clear();
    result.tensors.erase(first, result.tensors.end());
  }
  for (const Tensor& tensor : result.tensors) result.answer.push_back(tensor.output());
  return result;
}

void Model::log(bool is_error, const std::string& text) const {
  if (options_.log) options_.log(is_error, text.c_str());
}

FileBytes open_file(const std::string& path) {
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
#ifdef _WIN32
  std::ifstream stream(file, std::ios::binary);
  std::vector<std::uint8_t> bytes;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (stream && !error) {
    bytes.resize(static_cast<std::size_t>(size));
    stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  }
  if (!stream || error) throw FileError("file " + path + " cannot be read");
  return FileBytes(std::move(bytes));
#else
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat described;
  if (opened < 0 || ::fstat(opened, &described) != 0) {
    const std::string reason = std::strerror(errno);
    if (opened >= 0) ::close(opened);
    throw FileError("file " + path + " cannot be read: " + reason);
  }
  const auto size = static_cast<std::size_t>(described.st_size);
  void* const mapped = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, opened, 0);
  ::close(opened);
  if (mapped == MAP_FAILED) throw FileError("file " + path + " cannot be read");
  const auto unmap = [size](void* address) {
    if (address) ::munmap(address, size);
  };
  return {static_cast<const std::uint8_t*>(mapped), size, std::shared_ptr<void>(mapped, unmap)};
#endif
}

}  // namespace asr_stream
