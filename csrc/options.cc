#include "options.h"

#include <algorithm>
#include <cmath>
#include <locale>
#include <sstream>
#include <type_traits>

#include "search/spelling.h"

namespace asr_stream {

namespace {

constexpr double kUnsetNumber = std::numeric_limits<double>::quiet_NaN();
constexpr std::int32_t kUnset = -1;

template <typename... Parts>
std::string join(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << std::boolalpha;
  (text << ... << parts);
  return text.str();
}

[[noreturn]] void refuse(const Option& option, const OptionValue& value) {
  const char* quote = std::holds_alternative<std::string_view>(value) ? "'" : "";
  const auto show = [](const auto& shown) { return printable(join(shown)); };
  throw std::invalid_argument(join(option.name, " is ", quote, std::visit(show, value), quote, "; it must be ",
                                   allowed(option)));
}

double raw(const asr_options& options, const Option& option) {
  return std::visit([&options](auto field) { return static_cast<double>(options.*field); }, option.field);
}

void put(asr_options& options, const Option& option, double value) {
  std::visit([&](auto field) { options.*field = static_cast<std::decay_t<decltype(options.*field)>>(value); },
             option.field);
}

OptionValue to_value(const Option& option, double number) {
  if (option.type == OptionType::kFlag) return number != 0;
  if (option.type == OptionType::kChoice) return choices(option).at(static_cast<std::size_t>(number));
  return number;
}

// The number for a value in asr_options; NaN if it has another type.
double to_number(const Option& option, const OptionValue& value) {
  if (option.type == OptionType::kFlag) {
    const bool* flag = std::get_if<bool>(&value);
    return flag ? *flag : kUnsetNumber;
  }
  if (option.type == OptionType::kChoice) {
    const std::vector<std::string_view> names = choices(option);
    const auto found = std::find_if(names.begin(), names.end(), [&](auto name) { return value == OptionValue(name); });
    return found != names.end() ? static_cast<double>(found - names.begin()) : kUnsetNumber;
  }
  const double* number = std::get_if<double>(&value);
  return number ? *number : kUnsetNumber;
}

}  // namespace

std::invalid_argument no_option(std::string_view name) {
  std::string text = join("there is no option '", printable(name), "'; the options are ");
  for (const Option& option : kOptions) text += join(&option == kOptions ? "" : ", ", option.name);
  return std::invalid_argument(text);
}

Options::Options() : asr_options{} {
  struct_size = sizeof(asr_options);
  for (const Option& option : kOptions) {
    const bool is_integer = option.field.index() == 0;
    put(*this, option, !option.of_model ? option.default_value : is_integer ? kUnset : kUnsetNumber);
  }
}

void set(asr_options& options, std::string_view name, const OptionValue& value) {
  const Option& row = option(name);
  const double number = to_number(row, value);
  if (!is_allowed(row, number)) refuse(row, value);
  put(options, row, number);
}

OptionValue parse(const Option& option, std::string_view text) {
  if (option.type == OptionType::kChoice) return text;
  if (option.type == OptionType::kFlag) {
    if (text != "true" && text != "false") refuse(option, text);
    return text == "true";
  }
  if (text == "inf") return kInfinity;
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());
  double number;
  if (!(stream >> number) || stream.peek() != std::istringstream::traits_type::eof()) refuse(option, text);
  return number;
}

OptionValue get(const asr_options& options, const Option& option) { return to_value(option, raw(options, option)); }

bool is_unset(const asr_options& options, const Option& option) {
  const double value = raw(options, option);
  return option.of_model && (option.field.index() == 0 ? value == kUnset : std::isnan(value));
}

std::size_t offset_of(const Option& option) {
  const asr_options options{};
  const auto address = [&options](auto field) { return reinterpret_cast<const char*>(&(options.*field)); };
  return static_cast<std::size_t>(std::visit(address, option.field) - reinterpret_cast<const char*>(&options));
}

void check(const asr_options& options) {
  for (const Option& option : kOptions) {
    const double value = raw(options, option);
    if (!is_unset(options, option) && !is_allowed(option, value)) refuse(option, value);
  }
}

Options resolved(Options options, const ModelDefaults& defaults) {
  const auto set_default = [&options](const char* name, double value) {
    if (is_unset(options, option(name))) set(options, name, value);
  };
  set_default("chunk_ms", static_cast<double>(defaults.chunk_size * kEncoderFrameMs));
  set_default("left_context_ms", static_cast<double>(defaults.left_context * kEncoderFrameMs));
  set_default("rescore_ctc_weight", defaults.rescore_ctc_weight);
  for (std::size_t i = 0; i < kLmOptions.size(); ++i) set_default(kLmOptions[i], defaults.lm_weights[i]);
  return options;
}

Options resolved(Options options) {
  for (const Option& option : kOptions) {
    if (is_unset(options, option)) put(options, option, option.default_value);
  }
  return options;
}

std::vector<std::string_view> choices(const Option& option) { return split(option.choices, ", "); }

std::string allowed(const Option& option) {
  switch (option.type) {
    case OptionType::kFlag: return "true or false";
    case OptionType::kChoice: return std::string("one of ") + option.choices;
    case OptionType::kInteger: return "a whole number in " + interval(option);
    case OptionType::kMilliseconds: return join("a multiple of ", kEncoderFrameMs, " in ", interval(option));
    case OptionType::kNumber: break;
  }
  return "in " + interval(option);
}

std::string interval(const Option& option) {
  return join(option.bracket, option.low, ", ", option.high, ']');
}

bool is_allowed(const Option& option, double value) {
  const bool is_whole = option.type == OptionType::kNumber || value == std::trunc(value);
  const bool is_multiple = option.type != OptionType::kMilliseconds || std::fmod(value, kEncoderFrameMs) == 0;
  return (option.bracket == '[' ? value >= option.low : value > option.low) && value <= option.high && is_whole &&
         is_multiple;
}

void check_option(std::string_view name, double value) {
  const Option& row = option(name);
  if (!is_allowed(row, value)) refuse(row, value);
}

OptionValue default_of(const Option& option) { return to_value(option, option.default_value); }

}  // namespace asr_stream
