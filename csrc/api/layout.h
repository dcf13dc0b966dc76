// The layout of asr_stream.h's structs, for bindings that are compiled separately from the library.
#pragma once

#include <cstddef>

#include "options.h"

namespace asr_stream {

std::size_t offset_of(const Option& option);  // in asr_options, in bytes

}  // namespace asr_stream
