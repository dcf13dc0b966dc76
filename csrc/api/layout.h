// Where the members of asr_stream.h's structs lie, for bindings that were compiled apart from the library.
#pragma once

#include <cstddef>

#include "options.h"

namespace asr_stream {

std::size_t offset_of(const Option& option);  // in asr_options, in bytes

}  // namespace asr_stream
