// The part of a model file's metadata that recognition needs; asr/runtime/metadata.py has the schema.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "calibration.h"

namespace asr_stream {

inline constexpr char kExportAgain[] = "get the file again, or write it again with `asr export`";

// The metadata of a file written by `asr export`. Errors are std::invalid_argument with the entry and a remedy.
class MetadataEntries {
 public:
  // Checks model_type and format_version. `what` names the kind of file in error messages.
  MetadataEntries(const std::map<std::string, std::string>& properties, const std::string& type, const char* what,
                  int version);

  bool has(const char* key) const { return properties_.count(key) > 0; }
  const std::string& text(const char* key) const;
  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const;
  double real(const char* key, double low, double high) const;
  std::vector<double> reals(const char* key) const;  // separated by commas
  [[noreturn]] void throw_damaged(const char* key, const std::string& allowed) const;

 private:
  template <typename Number>
  Number number(const char* key, Number low, Number high) const;

  const std::map<std::string, std::string>& properties_;
};

// A tensor that a network carries between its runs. It is the input `name`, which is zeros in the first run and then
// the output "new_" + name of the previous run. A metadata row describes it: "state_keys float32 N,6,C,192".
struct StateTensor {
  static constexpr std::int64_t kBatch = -1, kLeftContext = -2;  // dynamic sizes: "N" and "C" in the row

  // Throws std::invalid_argument unless the row has a name of letters, digits and _, float32 or int64, and up to eight
  // sizes, among them at most one N.
  explicit StateTensor(const std::string& row);

  std::vector<std::int64_t> shape(std::int64_t batch_size, std::int64_t left_context) const;

  std::string name;
  bool is_integer;  // int64; else float32
  std::vector<std::int64_t> sizes;
  std::size_t batch_axis;  // sizes.size() if all streams or hypotheses share the tensor
};

struct ModelMetadata {
  // Checks every entry that is used, and that the front end is that of frontend/fbank.h. Throws std::invalid_argument
  // with the entry and a remedy.
  explicit ModelMetadata(const std::map<std::string, std::string>& properties);

  std::vector<std::string> tokens;  // UTF-8 spelling of every token id; id 0 is the CTC blank, "▁" begins a word
  std::vector<std::string> phones;  // names of the phones, see LmFusion; empty without a phone head
  std::int64_t dim;                 // of encoder_out
  std::vector<StateTensor> states;  // of the encoder
  std::int64_t default_chunk_size;  // encoder frames, unless an option overrides it
  std::int64_t default_left_context;
  double rescore_ctc_weight;
  std::string language;     // a BCP 47 code, such as "en" or "de-CH"; empty if unknown
  Calibration calibration;

  std::int64_t vocab_size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t num_phone_tokens() const {
    return phones.empty() ? 0 : static_cast<std::int64_t>(1 + 2 * phones.size());
  }
  // Names of the encoder's inputs and outputs, in order.
  std::vector<std::string> encoder_inputs() const;
  std::vector<std::string> encoder_outputs() const;
  // The tokens in the form that `words` takes: tokens that are not part of text are empty.
  std::vector<std::string> output_symbols() const;
};

// The metadata of an attention decoder's file.
struct DecoderMetadata {
  // Throws std::invalid_argument like ModelMetadata.
  explicit DecoderMetadata(const std::map<std::string, std::string>& properties);

  std::vector<std::string> tokens;  // these and `dim` are those of the model that it was trained with
  std::int64_t dim;
  std::vector<StateTensor> states;  // of a search, between its steps; "C" is the number of tokens, or of frames

  std::vector<std::string> outputs() const;  // with the states
};

}  // namespace asr_stream
