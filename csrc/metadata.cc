#include "metadata.h"

#include <algorithm>
#include <iterator>
#include <locale>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "contract.h"
#include "options.h"
#include "utf8.h"
#include "text/language.h"

namespace asr_stream {

namespace {

constexpr std::int64_t kMaxSize = 1 << 20;  // far larger than in any model; the product of two does not overflow

std::int64_t max_frames(const char* option_name) {
  return static_cast<std::int64_t>(option(option_name).high) / kEncoderFrameMs;
}

// What the front end of a model must be. `text` is for entries that are no numbers.
struct FrontEnd {
  const char* key;
  double number;
  const char* text = nullptr;
};

constexpr double kSampleMs = 1000.0 / kSampleRate;
constexpr FrontEnd kFrontEnd[] = {{"sample_rate", kSampleRate},
                                  {"num_mel_bins", kNumBins},
                                  {"frame_length_ms", kFrameLength * kSampleMs},
                                  {"frame_shift_ms", kFrameShift * kSampleMs},
                                  {"low_freq", kLowFreq},
                                  {"high_freq", kHighFreq},
                                  {"preemphasis", kPreemphasis},
                                  {"window", 0, "povey"},
                                  {"snip_edges", 0, "false"},
                                  {"remove_dc_offset", 0, "true"},
                                  {"dither", 0},
                                  {"subsampling", kSubsampling},
                                  {"feature_overlap", kFeatureOverlap}};

std::string shown(const std::string& text) {
  std::string cut;
  for (const char c : text.substr(0, 60)) cut += c >= ' ' && c <= '~' ? c : '?';
  return "'" + cut + "'";
}

// Parses a number in the C locale, whatever the locale of the app. Returns false for anything else.
template <typename Number>
bool parse(std::string_view text, Number& number) {
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  return !text.empty() && (stream >> std::noskipws >> number) &&
         stream.peek() == std::istringstream::traits_type::eof();
}

std::vector<std::string> split_lines(std::string_view text) {
  const std::vector<std::string_view> lines = split(text, "\n");
  return {lines.begin(), lines.end()};
}

// Whether the texts are distinct single words.
bool are_names(const std::vector<std::string>& texts) {
  const auto is_name = [](const std::string& text) {
    return !text.empty() && text.find_first_of(" \t\r\v\f") == std::string::npos;
  };
  return texts.size() <= kMaxSize && std::all_of(texts.begin(), texts.end(), is_name) &&
         std::set<std::string>(texts.begin(), texts.end()).size() == texts.size();
}

}  // namespace

StateTensor::StateTensor(const std::string& row) {
  const auto require = [&row](bool condition) {
    if (!condition) {
      throw std::invalid_argument(shown(row) + " is not a state: it must be a name, float32 or int64, and up to " +
                                  "eight sizes, at most one of them N, such as 'state_keys float32 N,6,C,192'");
    }
  };
  const std::vector<std::string_view> parts = split(row, " ");
  require(parts.size() == 3);
  name = parts[0];
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  require(!name.empty() && std::all_of(name.begin(), name.end(), is_plain));
  is_integer = parts[1] == "int64";
  require(is_integer || parts[1] == "float32");
  for (const std::string_view part : split(parts[2], ",")) {
    std::int64_t size = part == "N" ? kBatch : kLeftContext;
    require(part == "N" || part == "C" || (parse(part, size) && size >= 1 && size <= kMaxSize));
    sizes.push_back(size);
  }
  require(sizes.size() <= 8 && std::count(sizes.begin(), sizes.end(), kBatch) <= 1);
  batch_axis = static_cast<std::size_t>(std::find(sizes.begin(), sizes.end(), kBatch) - sizes.begin());
}

std::vector<std::int64_t> StateTensor::shape(std::int64_t batch_size, std::int64_t left_context) const {
  std::vector<std::int64_t> result = sizes;
  for (std::int64_t& size : result) size = size == kBatch ? batch_size : size == kLeftContext ? left_context : size;
  return result;
}

MetadataEntries::MetadataEntries(const std::map<std::string, std::string>& properties, const std::string& type,
                                 const char* what, int version)
    : properties_(properties) {
  const auto found = properties.find("model_type");
  if (found == properties.end() || found->second != type) {
    throw std::invalid_argument(std::string("it is not a ") + what + ": its metadata key model_type is " +
                                (found == properties.end() ? "missing" : shown(found->second)) +
                                "; `asr export` writes one");
  }
  const std::string& found_version = text("format_version");
  if (found_version != std::to_string(version)) {
    throw std::invalid_argument("metadata key format_version is " + shown(found_version) + "; this release reads " +
                                std::to_string(version) +
                                ": update asr-stream, or write the file again with a matching `asr export`");
  }
}

const std::string& MetadataEntries::text(const char* key) const {
  const auto found = properties_.find(key);
  if (found == properties_.end()) {
    throw std::invalid_argument(std::string("metadata key ") + key + " is missing: " + kExportAgain);
  }
  return found->second;
}

template <typename Number>
Number MetadataEntries::number(const char* key, Number low, Number high) const {
  Number value{};
  if (!parse(text(key), value) || !(value >= low && value <= high)) {
    throw_damaged(key, "a number in [" + std::to_string(low) + ", " + std::to_string(high) + "]");
  }
  return value;
}

std::int64_t MetadataEntries::integer(const char* key, std::int64_t low, std::int64_t high) const {
  return number(key, low, high);
}

double MetadataEntries::real(const char* key, double low, double high) const { return number(key, low, high); }

std::vector<double> MetadataEntries::reals(const char* key) const {
  std::vector<double> numbers;
  for (const std::string_view part : split(text(key), ",")) {
    if (!parse(part, numbers.emplace_back())) throw_damaged(key, "finite numbers separated by commas");
  }
  return numbers;
}

void MetadataEntries::throw_damaged(const char* key, const std::string& allowed) const {
  throw std::invalid_argument(std::string("metadata key ") + key + " is " + shown(text(key)) + ", it must be " +
                              allowed + ": " + kExportAgain);
}

namespace {

std::vector<std::string> read_tokens(const MetadataEntries& entries) {
  const std::vector<std::string> tokens = split_lines(entries.text("tokens"));
  if (tokens.size() < 4 || !are_names(tokens)) {
    entries.throw_damaged("tokens", "4 or more different texts without spaces, one per line");
  }
  return tokens;
}

std::vector<StateTensor> read_states(const MetadataEntries& entries) {
  std::vector<StateTensor> states;
  std::set<std::string> names;
  try {
    for (const std::string& row : split_lines(entries.text("states"))) names.insert(states.emplace_back(row).name);
  } catch (const std::invalid_argument& error) {
    entries.throw_damaged("states", "one state per line; " + std::string(error.what()));
  }
  if (names.size() != states.size()) entries.throw_damaged("states", "states of different names");
  return states;
}

void add(std::vector<std::string>& names, const std::vector<StateTensor>& states, const std::string& prefix) {
  for (const StateTensor& state : states) names.push_back(prefix + state.name);
}

}  // namespace

ModelMetadata::ModelMetadata(const std::map<std::string, std::string>& properties) {
  const MetadataEntries entries(properties, "asr_stream", "model for asr-stream", kFormatVersion);
  for (const FrontEnd& wanted : kFrontEnd) {
    const std::string& text = entries.text(wanted.key);
    double found = 0.0;
    if (wanted.text ? text == wanted.text : parse(text, found) && found == wanted.number) continue;
    const std::string expected = wanted.text ? wanted.text : number_text(wanted.number);
    entries.throw_damaged(wanted.key, "'" + expected + "', the only supported value");
  }
  entries.integer("num_layers", 1, kMaxSize);
  dim = entries.integer("dim", 1, kMaxSize);
  default_chunk_size = entries.integer("default_chunk_size", 1, max_frames("chunk_ms"));
  default_left_context = entries.integer("default_left_context", 0, max_frames("left_context_ms"));
  rescore_ctc_weight = entries.real("rescore_ctc_weight", 0.0, 1.0);
  tokens = read_tokens(entries);
  phones = split_lines(entries.text("phones"));
  if (phones.size() > kMaxPhones || !are_names(phones)) {
    entries.throw_damaged("phones", "up to 127 different texts without spaces, one per line");
  }
  language = entries.text("language");
  if (!is_language(language)) entries.throw_damaged("language", "a BCP 47 code, such as 'en' or 'de-CH', or empty");
  for (const CalibrationRow& row : asr_stream::rows(calibration)) {
    if (!entries.has(row.key)) continue;
    const std::vector<double> numbers = entries.reals(row.key);
    try {
      set(row, numbers);
    } catch (const std::invalid_argument& error) {
      entries.throw_damaged(row.key, std::string("a calibration: ") + error.what());
    }
  }
  states = read_states(entries);
  for (const StateTensor& state : states) {
    if (state.batch_axis == state.sizes.size()) entries.throw_damaged("states", "states with a size N each");
  }
}

std::vector<std::string> ModelMetadata::encoder_inputs() const {
  std::vector<std::string> names(std::begin(kEncoderInputs), std::end(kEncoderInputs));
  add(names, states, "");
  return names;
}

std::vector<std::string> ModelMetadata::encoder_outputs() const {
  std::vector<std::string> names(std::begin(kEncoderOutputs), std::end(kEncoderOutputs));
  add(names, states, "new_");
  if (!phones.empty()) names.push_back(kPhoneOutput);
  return names;
}

std::vector<std::string> ModelMetadata::output_symbols() const {
  std::vector<std::string> spellings = tokens;
  for (const std::int32_t id : {kBlankId, kUnkId, kSosEosId}) spellings[static_cast<std::size_t>(id)].clear();
  return spellings;
}

DecoderMetadata::DecoderMetadata(const std::map<std::string, std::string>& properties) {
  const MetadataEntries entries(properties, kDecoderType, "decoder for asr-stream", kDecoderVersion);
  tokens = read_tokens(entries);
  dim = entries.integer("dim", 1, kMaxSize);
  states = read_states(entries);
}

std::vector<std::string> DecoderMetadata::outputs() const {
  std::vector<std::string> names(std::begin(kDecoderOutputs), std::end(kDecoderOutputs));
  names.push_back(kDecoderStepOutput);
  add(names, states, "new_");
  return names;
}

}  // namespace asr_stream
