#include "contract.h"

#include <locale>
#include <sstream>

namespace asr_stream {

bool is_allowed(const OptionRange& range, double value) {
  return (range.with_low ? value >= range.low : value > range.low) && value <= range.high;
}

std::string interval(const OptionRange& range) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  text << (range.with_low ? '[' : '(') << range.low << ", " << range.high << ']';
  return text.str();
}

void check_option(std::string_view name, double value) {
  const OptionRange& range = option(name);
  if (is_allowed(range, value)) return;
  std::ostringstream message;
  message.imbue(std::locale::classic());
  message << name << " is " << value << "; it must be in " << interval(range);
  throw std::invalid_argument(message.str());
}

}  // namespace asr_stream
