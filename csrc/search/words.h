// Converts tokens to words with times and confidences, and chooses between hypotheses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "calibration.h"
#include "contract.h"
#include "search/ctc_search.h"
#include "search/lm_fusion.h"

namespace asr_stream {

// A recognized word; times are in seconds of the stream. Its confidence, in (0, 1), is the probability that it is
// right. It is a logistic function of the confidence of the least certain token (one wrong token makes the word wrong),
// the mean over all tokens (so that a single letter does not decide about a long word) and, if sentences were compared,
// the word's posterior.
struct Word {
  std::string text;
  double start_s;
  double end_s;
  float confidence;
};

// Where the frames of a hypothesis are.
struct FrameOrigin {
  std::int64_t position = 0;  // stream position of frame 0, in samples of kSampleRate
  std::int64_t first = 0;     // first frame of the utterance; no word begins before it
};

// The words of a hypothesis.
//
// CTC emits a token later than it was spoken. Compared with the known times of synthesized words and the edges of
// pauses in read speech, words begin two frames late after a pause, and end one frame late before a pause. In fluent
// speech (the next word follows within kFluentFrames), they end two frames late, and the next word actually begins
// there. The times are corrected by these frames. benchmarks/word_times.py measures this.
//
// map: calibrated for the model and the search. With a language model, correct words have less certain tokens.
// tokens: UTF-8 spelling of every token id. "▁" (U+2581) begins a word, as in SentencePiece, or is a separate token
// between words. The spelling is empty for a token that is not part of text.
// Throws std::invalid_argument for a token id outside `tokens`.
std::vector<Word> words(const Hypothesis& hypothesis, const std::vector<std::string>& tokens,
                        const ConfidenceMap& map, const FrameOrigin& origin = {});

// The words of a hypothesis of a search over phones. letters: the greedy hypothesis of the letter head for the same
// audio; tokens: spelling of its tokens. A word outside the vocabulary is spelled with the letters at its time. Omits
// words without letters, and an incomplete word that does not match any word yet.
std::vector<Word> words(const Hypothesis& hypothesis, const LmFusion& fusion, const Hypothesis& letters,
                        const std::vector<std::string>& tokens, const Calibration& calibration,
                        const FrameOrigin& origin = {});


// The ids of words within one utterance: those of `LmFusion`, and others for words outside its vocabulary. In a search
// over phones, all of the latter have the id of <unk>.
class WordIds {
 public:
  explicit WordIds(const LmFusion* fusion);  // may be null; must outlive this object

  std::int32_t of(std::string_view text);
  std::string_view text(std::int32_t word) const;  // valid until `of` is called; empty for <unk>

 private:
  const LmFusion* fusion_;
  std::int32_t num_known_;
  std::vector<std::string> others_;
  std::map<std::string, std::int32_t, std::less<>> ids_;  // of others_
};

// Sets `words` of a hypothesis of a search by spelling. tokens: as for `words`.
void set_words(Hypothesis& hypothesis, const std::vector<std::string>& tokens, WordIds& ids);

// Keeps the best of the sentences with the same words. One without words is kept only if it is the best of all.
void keep_distinct(std::vector<Hypothesis>& sentences);

// The number of leading words that both lists spell the same.
std::size_t num_alike(const std::vector<Word>& a, const std::vector<Word>& b);

// Joins the words with spaces, or with their line breaks.
std::string join(const std::vector<Word>& words);

// Sets the posteriors of the first `count` sentences (Wessel et al. 2001, "Confidence measures for large
// vocabulary continuous speech recognition"). The probability of a word is the sum over the sentences with this word at
// this position. sentences: the alternatives of one utterance, at least one. Those after the first `num_scored` do not
// change the posteriors of the others; theirs add up to less than that of the best.
void set_posteriors(std::vector<Hypothesis>& sentences, std::size_t num_scored, std::size_t count);

// Subtracts `penalty` nats from a sentence for each of `words` that it lacks, and puts the best sentence first. Applies
// to the first `num_scored` sentences; the others lose as much as the one that loses most, and so stay below. The words
// that a sentence has are the longest common subsequence.
void prefer_words(std::vector<Hypothesis>& sentences, std::size_t num_scored, const std::vector<std::int32_t>& words,
                  double penalty);

// Index of the best hypothesis by ctc_weight * first pass + (1 - ctc_weight) * decoder score: the second pass of Zhang
// et al. 2020, "Unified streaming and non-streaming two-pass end-to-end model". Both are log-probabilities of the whole
// sentence; the first includes the language model's score. The boosts of hotwords are not scaled. The decoder does not
// know hotwords and must not remove them, so only hypotheses with the same boost as the best of the first pass can win.
// Ties go to the first. Throws std::invalid_argument for no hypotheses, a different number of scores, or a weight
// outside [0, 1].
std::size_t best_rescored(const std::vector<Hypothesis>& hypotheses, const std::vector<float>& decoder_scores,
                          double ctc_weight);

}  // namespace asr_stream
