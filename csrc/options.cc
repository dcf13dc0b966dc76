#include "options.h"

#include <algorithm>
#include <cmath>
#include <locale>
#include <sstream>
#include <type_traits>

#include "utf8.h"

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

using ListField = std::optional<std::string> Options::*;

bool is_list(const Option& option) { return option.type == OptionType::kList; }

double raw(const Options& options, const Option& option) {
  if (const auto* field = std::get_if<double Options::*>(&option.field)) return options.**field;
  return options.*std::get<std::int32_t Options::*>(option.field);
}

void put(Options& options, const Option& option, double value) {
  if (const auto* field = std::get_if<double Options::*>(&option.field)) {
    options.**field = value;
  } else {
    options.*std::get<std::int32_t Options::*>(option.field) = static_cast<std::int32_t>(value);
  }
}

const std::optional<std::string>& list_of(const Options& options, const Option& option) {
  return options.*std::get<ListField>(option.field);
}

void check_size(const Option& option, std::string_view list) {
  if (static_cast<double>(list.size()) <= option.high) return;
  throw std::invalid_argument(join("the list ", option.name, " has more than ", static_cast<std::size_t>(option.high),
                                   " bytes; leave entries out"));
}

OptionValue to_value(const Option& option, double number) {
  if (is_list(option)) return std::string_view();
  if (option.type == OptionType::kFlag) return number != 0;
  if (option.type == OptionType::kChoice) return choices(option).at(static_cast<std::size_t>(number));
  return number;
}

// The number for a value in Options; NaN if it has another type.
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

Options::Options() {
  for (const Option& option : kOptions) reset(*this, option);
}

void reset(Options& options, const Option& option) {
  if (is_list(option)) {
    (options.*std::get<ListField>(option.field)).reset();
  } else {
    const double unset = std::holds_alternative<double Options::*>(option.field) ? kUnsetNumber : kUnset;
    put(options, option, option.of_model ? unset : option.default_value);
  }
}

void set(Options& options, std::string_view name, const OptionValue& value) {
  const Option& row = option(name);
  if (is_list(row)) {
    const auto* text = std::get_if<std::string_view>(&value);
    if (!text) refuse(row, value);
    check_size(row, *text);
    options.*std::get<ListField>(row.field) = std::string(*text);
    return;
  }
  const double number = to_number(row, value);
  if (!is_allowed(row, number)) refuse(row, value);
  put(options, row, number);
}

OptionValue parse(const Option& option, std::string_view text) {
  if (option.type == OptionType::kChoice || is_list(option)) return text;
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

OptionValue get(const Options& options, const Option& option) {
  if (!is_list(option)) return to_value(option, raw(options, option));
  const std::optional<std::string>& list = list_of(options, option);
  return list ? std::string_view(*list) : std::string_view();
}

bool is_unset(const Options& options, const Option& option) {
  if (is_list(option)) return !list_of(options, option);
  const double value = raw(options, option);
  return option.of_model && (std::isnan(value) || value == kUnset);
}

void check(const Options& options) {
  for (const Option& option : kOptions) {
    if (is_list(option) || is_unset(options, option)) continue;
    const double value = raw(options, option);
    if (!is_allowed(option, value)) refuse(option, value);
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
    if (option.of_model && is_unset(options, option)) put(options, option, option.default_value);
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
    case OptionType::kList: return "a list, one entry per line";
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

std::string number_text(double number) {
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  for (int precision = std::numeric_limits<double>::digits10;; ++precision) {
    std::stringstream text;
    text.imbue(std::locale::classic());
    text.precision(precision);
    text << number;
    double read;
    if (precision == std::numeric_limits<double>::max_digits10 || (text >> read && read == number)) return text.str();
  }
}

std::string to_text(const OptionValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return std::string(std::get<std::string_view>(value));
}

}  // namespace asr_stream
