// The layout of asr_stream.h's structs, for bindings that are compiled separately from the library.
//
// The core's namespace has the same name as the C type, so the type is renamed in this file.
#define asr_stream asr_stream_handle
#include <asr_stream/asr_stream.h>
#undef asr_stream

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "options.h"

namespace asr_stream {

static_assert(ASR_SAMPLE_RATE == kSampleRate && ASR_MIN_SAMPLE_RATE == kMinSampleRate &&
              ASR_MAX_SAMPLE_RATE == kMaxSampleRate);

namespace {

struct Row {
  std::string_view name;
  std::size_t bytes;
};

#define SIZE(type) {#type, sizeof(type)}
#define OFFSET(type, member) {#type "." #member, offsetof(type, member)}

// The members of asr_options are in the table of options.
constexpr Row kRows[] = {
    SIZE(asr_options),
    OFFSET(asr_options, struct_size),
    SIZE(asr_model_options),
    OFFSET(asr_model_options, struct_size),
    OFFSET(asr_model_options, onnxruntime_path),
    OFFSET(asr_model_options, lm_path),
    OFFSET(asr_model_options, lm_data),
    OFFSET(asr_model_options, lm_size),
    OFFSET(asr_model_options, num_threads),
    OFFSET(asr_model_options, reserved),
    OFFSET(asr_model_options, log),
    OFFSET(asr_model_options, log_user_data),
    OFFSET(asr_model_options, punctuation_path),
    OFFSET(asr_model_options, punctuation_data),
    OFFSET(asr_model_options, punctuation_size),
    OFFSET(asr_model_options, neural_lm_path),
    OFFSET(asr_model_options, neural_lm_data),
    OFFSET(asr_model_options, neural_lm_size),
    SIZE(asr_assets),
    OFFSET(asr_assets, struct_size),
    OFFSET(asr_assets, hotwords),
    OFFSET(asr_assets, phrases),
    OFFSET(asr_assets, mask),
    OFFSET(asr_assets, use_lm),
    OFFSET(asr_assets, reserved),
    OFFSET(asr_assets, replace),
    OFFSET(asr_assets, command_list),
    SIZE(asr_word),
    OFFSET(asr_word, text),
    OFFSET(asr_word, start_s),
    OFFSET(asr_word, end_s),
    OFFSET(asr_word, confidence),
    SIZE(asr_alternative),
    OFFSET(asr_alternative, text),
    OFFSET(asr_alternative, confidence),
    OFFSET(asr_alternative, words),
    OFFSET(asr_alternative, num_words),
    SIZE(asr_event),
    OFFSET(asr_event, type),
    OFFSET(asr_event, text),
    OFFSET(asr_event, start_s),
    OFFSET(asr_event, end_s),
    OFFSET(asr_event, words),
    OFFSET(asr_event, num_words),
    OFFSET(asr_event, num_stable),
    OFFSET(asr_event, endpoint),
    OFFSET(asr_event, raw),
    OFFSET(asr_event, raw_words),
    OFFSET(asr_event, num_raw_words),
    OFFSET(asr_event, alternatives),
    OFFSET(asr_event, num_alternatives),
    OFFSET(asr_event, num_taken_back),
};

}  // namespace

}  // namespace asr_stream

size_t asr_layout(const char* name) {
  const std::string_view wanted = name ? name : "";
  for (const asr_stream::Row& row : asr_stream::kRows) {
    if (row.name == wanted) return row.bytes;
  }
  constexpr std::string_view kPrefix = "asr_options.";
  if (wanted.substr(0, kPrefix.size()) == kPrefix) {
    const asr_stream::Option* option = asr_stream::find_option(wanted.substr(kPrefix.size()));
    if (option) return asr_stream::offset_of(*option);
  }
  return SIZE_MAX;
}
