#include "text/de/german.h"

namespace asr_stream::de {

const Language& german() {
  static const NameWords names;
  static const std::unordered_map<std::string, float> rare_commas;
  const auto none = [](const std::string&) { return false; };
  static const Language language{"de",   "german",     format_numbers,     [](std::string&) {}, nullptr,
                                 &names, &rare_commas, &german_commands(), none,
                                 none};
  return language;
}

}  // namespace asr_stream::de
