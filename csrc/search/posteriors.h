// Posteriors from the sentences of a lattice (Wessel et al. 2001, "Confidence measures for large vocabulary continuous
// speech recognition"). The probability of a word is the sum over the sentences with this word at this position.
#pragma once

#include <cstddef>
#include <vector>

#include "search/ctc_search.h"

namespace asr_stream {

// Sets the posteriors of the first `count` sentences. sentences: the alternatives of one utterance, at least one.
void set_posteriors(std::vector<Hypothesis>& sentences, std::size_t count);

}  // namespace asr_stream
