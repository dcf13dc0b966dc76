/* The options of recognition, plain values. asr_stream.h includes this file and has the functions for it. */
#ifndef ASR_STREAM_OPTIONS_H
#define ASR_STREAM_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum asr_search {
  ASR_SEARCH_GREEDY = 0,
  ASR_SEARCH_BEAM = 1,
  ASR_SEARCH_RESCORE = 2,
  ASR_SEARCH_JOINT = 3
} asr_search;

typedef enum asr_text { ASR_TEXT_FORMATTED = 0, ASR_TEXT_PLAIN = 1 } asr_text;

typedef enum asr_spelling { ASR_SPELLING_AMERICAN = 0, ASR_SPELLING_BRITISH = 1, ASR_SPELLING_MIXED = 2 } asr_spelling;

/* Defaults: asr_options_init. Values that the model file sets by default are -1, doubles NAN. The comments are
 * written by `python scripts/write_options.py`. */
typedef struct asr_options {
  size_t struct_size; /* sizeof(asr_options) */
  /* audio per step; text appears once per chunk; a multiple of 40 in [40, 5120]; default: the model file's, usually
   * 640 */
  int32_t chunk_ms;
  /* audio before the chunk that the encoder attends to; a multiple of 40 in [0, 20480]; default: the model file's,
   * usually 2560 */
  int32_t left_context_ms;
  /* greedy, beam (CTC prefix beam search), rescore (beam; the attention decoder rescores finals of a search over
   * letters), or joint (beam; finals come from a search by the attention decoder and CTC, without a language model);
   * default: rescore; asr_search */
  int32_t search;
  /* encode each finished utterance a second time, which corrects its final text; default: true */
  int32_t second_pass;
  /* hypotheses kept by the beam search; the finals of search joint come from 8; a whole number in [1, 1024]; default:
   * 256 */
  int32_t beam_size;
  /* hypotheses of a search over letters that the attention decoder rescores; more of them delay finals; a whole
   * number in [1, 1024]; default: 4 */
  int32_t num_rescored;
  /* how words are shown: formatted (numbers in digits; in English, case and punctuation) or plain; default:
   * formatted; asr_text */
  int32_t text;
  /* nats below the best hypothesis at which another one is dropped; in (0, 100]; default: 11 */
  double beam_threshold;
  /* weight of the first pass in rescoring; the decoder's weight is the rest; in [0, 1]; default: the model file's,
   * usually 0.7 */
  double rescore_ctc_weight;
  /* weight of CTC in search joint; the decoder's weight is the rest; in [0, 1]; default: 0.3 */
  double joint_ctc_weight;
  /* weight of the language model's log-probabilities; in [0, 10]; default: the model file's, usually 0.95 */
  double lm_weight;
  /* added for each word if there is a language model; in [-20, 20]; default: the model file's, usually -2.4 */
  double lm_word_bonus;
  /* subtracted for each word outside the vocabulary of the language model; in [0, 100]; default: the model file's,
   * usually 8 */
  double lm_oov_penalty;
  /* weight of the bigram log-probabilities of tokens or phones, which are subtracted; in [0, 2]; default: the model
   * file's, usually 0.7 */
  double lm_prior_weight;
  /* bonus in nats for each letter of a hotword; in (0, 20]; default: 0.75 */
  double hotword_boost;
  /* with phrases, cost in nats for each phone or letter that becomes [unk]; in (0, 100]; default: 1.5 */
  double unknown_cost;
  /* an utterance ends after this much silence at the latest, earlier if the sentence sounds complete; inf: never; in
   * (0, inf]; default: 2 */
  double silence_after_speech_s;
  /* shortest silence before an utterance ends, at most silence_after_speech_s; if equal, a fixed timeout; in (0,
   * inf]; default: 0.5 */
  double min_silence_after_speech_s;
  /* silence before an utterance without any words ends; in (0, inf]; default: 5 */
  double silence_without_speech_s;
  /* a longer utterance is split at its next pause, or between two words; in (0, 120]; default: 20 */
  double max_utterance_s;
  /* maximum number of other hypotheses in a final, most likely first; search greedy has none; a whole number in [0,
   * 20]; default: 0 */
  int32_t max_alternatives;
  /* obey spoken commands of dictation: comma, new line, all caps, scratch that, ...; default: false */
  int32_t commands;
  /* spelling of formatted English text: american (color), british (colour), or mixed (as recognized); default:
   * american; asr_spelling */
  int32_t spelling;
} asr_options;

#endif
