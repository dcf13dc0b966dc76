/* libasr_stream: streaming speech recognition from one model file. C99.
 *
 *     asr_model *model;  asr_stream *stream;  char error[256];
 *     asr_model_load("model.onnx", NULL, &model, error, sizeof error);
 *     asr_stream_new(model, ASR_SAMPLE_RATE, NULL, &stream, error, sizeof error);
 *     while (...) {
 *       asr_stream_accept_i16(stream, samples, num_samples);
 *       for (const asr_event *e; (e = asr_stream_next_event(stream)) != NULL;) puts(e->text);
 *     }
 *     asr_stream_finish(stream);  ... the last events ...
 *     asr_stream_free(stream);  asr_model_free(model);
 *
 * THE CONTRACT
 *
 * Audio. Mono, at the sample rate given to asr_stream_new, in pieces of any length. The result depends only on the
 * audio, not on how it is split, and is the same as in Python: text, times, confidence.
 *
 * Events. They come in order, oldest first. A PARTIAL is the current utterance so far; the next PARTIAL or FINAL
 * replaces it, and an empty one removes it. A FINAL is an utterance that has ended (an endpoint). It never changes, and
 * it is empty only if it consisted of spoken commands. A GAP comes after the FINAL of the speech before it. An ERROR
 * reports a problem with the audio, or, once for each network, that a network other than the encoder failed; the stream
 * continues. Times are seconds from the stream's first sample, including gaps. Finals and their words never overlap.
 *
 * Threads. An asr_model is immutable: any number of threads and streams share it, and it may be freed before its
 * streams. An asr_stream is used by one thread at a time, which may be any thread. A second thread gets ASR_BUSY, and
 * it must not call asr_stream_error or asr_stream_warning, which do not check (asr_status_text may be called). Free a
 * stream only when no call uses it. The only calls that wait for another thread are asr_stream_new and
 * asr_stream_change, while a thread builds a lexicon or opens the decoder of the same model, and asr_model_load, while
 * a thread loads ONNX Runtime. The library starts no threads, except those of ONNX Runtime if
 * num_threads is not 1. All work is done within accept, gap, end_utterance, change and finish. An asr_settings is used
 * by one thread at a time.
 *
 * Failures. The library never exits, prints, or throws an exception: every failure is returned as a status, with a
 * sentence about it. A call that is rejected changes nothing. Damaged files and any arguments except invalid pointers
 * are safe.
 *
 * Texts. Every `char *` is UTF-8 and ends with a NUL. Data from the app is copied before the call returns. Data
 * returned by the library belongs to the library and stays valid
 *   - asr_version, asr_status_text: as long as the library is loaded,
 *   - asr_model_property, asr_model_property_name: as long as the model,
 *   - asr_stream_error, asr_stream_warning: until the next call with this stream,
 *   - an asr_event and its members, and an event as JSON: until the next event is taken, or asr_stream_free,
 *   - asr_settings_get: until the next call with these settings,
 *   - the text of an asr_log_callback: during that call.
 * asr_settings_free(NULL), asr_model_free(NULL) and asr_stream_free(NULL) do nothing.
 *
 * ABI. Settings are set by name, so that a later version may have more of them. It may also have more functions,
 * statuses and keys of an event's JSON, and members at the end of asr_event; everything else stays. Before 1.0, a minor
 * version may break this.
 *
 * Versions.
 *   0.1: everything in this file.
 *
 * docs/reference/c_limits.md lists the input that is rejected or truncated, and how to check it beforehand.
 *
 * ONNX Runtime (1.18 or newer for the bundled files) is loaded with the first model: from
 * the setting onnxruntime; otherwise from the file named by the environment variable ASR_STREAM_ONNXRUNTIME; otherwise
 * under its usual name (libonnxruntime.so.1, libonnxruntime.so, libonnxruntime.dylib, onnxruntime.dll).
 * Before that, the library sets the environment variable ORT_DISABLE_TELEMETRY to 1 unless it is set, because ONNX
 * Runtime would otherwise report to its maker. If other threads of the app may read the environment meanwhile, or if
 * the app itself starts ONNX Runtime earlier, set it when the app starts.
 */
#ifndef ASR_STREAM_H
#define ASR_STREAM_H

#include <stddef.h>
#include <stdint.h>

#if defined(ASR_STREAM_STATIC)
#define ASR_API
#elif defined(_WIN32) && defined(ASR_STREAM_BUILDING)
#define ASR_API __declspec(dllexport)
#elif defined(_WIN32)
#define ASR_API __declspec(dllimport)
#else
#define ASR_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Hz: the rate of the model, to which audio is resampled; and the range of rates that a stream accepts */
#define ASR_SAMPLE_RATE 16000
#define ASR_MIN_SAMPLE_RATE 1000
#define ASR_MAX_SAMPLE_RATE 768000

typedef struct asr_settings asr_settings;
typedef struct asr_model asr_model;
typedef struct asr_stream asr_stream;

typedef enum asr_status {
  ASR_OK = 0,
  ASR_INVALID_ARGUMENT = 1,    /* a value out of range, or an invalid NULL */
  ASR_FILE_UNREADABLE = 2,     /* the file does not exist or cannot be read */
  ASR_FILE_DAMAGED = 3,        /* not an asr-stream model or language model, or a damaged one */
  ASR_RUNTIME_UNAVAILABLE = 4, /* ONNX Runtime was not found, or is too old */
  ASR_OUT_OF_MEMORY = 5,
  ASR_BUSY = 6,                /* another thread is using the stream */
  ASR_FINISHED = 7,            /* audio after asr_stream_finish */
  ASR_FAILED = 8               /* the encoder failed, and every later call fails. Earlier events can still be
                                  taken */
} asr_status;

/* The meaning of a status in a few words; never NULL. */
ASR_API const char *asr_status_text(asr_status status);

/* "0.1.0" */
ASR_API const char *asr_version(void);

typedef enum asr_log_level { ASR_LOG_ERROR = 0, ASR_LOG_INFO = 1 } asr_log_level;

/* Called on the thread that called the library. `text` is valid only during the call. */
typedef void (*asr_log_callback)(void *user_data, asr_log_level level, const char *text);

/* Settings: how to open a model, and how a stream recognizes. They begin with their defaults. NULL: out of memory. */
ASR_API asr_settings *asr_settings_new(void);
ASR_API void asr_settings_free(asr_settings *settings);

/* Sets a value by its name; NULL for the default. Used by asr_model_load:
 *   "lm"           path of a language model, a file of `asr lm`. Without one, a model with phones, such as the bundled
 *                  one, makes about seven times as many errors, and the log warns. The file is mapped, except on
 *                  Windows, so processes share its memory: while a model is open, replace it by renaming another file,
 *                  and never write into it
 *   "neural_lm"    path of a neural language model that rescores finals, a file of `asr export`, with or without lm;
 *                  not with search greedy or phrases
 *   "punctuation"  path of a model for case and punctuation, a file of `asr export`; endpoints also depend on it;
 *                  without one, formatted text is in lower case
 *   "decoder"      path of the model's attention decoder, the file NAME.decoder.onnx of `asr export`, for the searches
 *                  rescore and joint
 *   "onnxruntime"  path of the ONNX Runtime library; see above
 *   "num_threads"  CPU threads inside one operator, [0, 1024], 0: all cores; default 1
 * Used by asr_stream_new and asr_stream_change: every row of docs/reference/options.md, such as "beam_size" to "64",
 * "second_pass" to "false", "search" to "beam", "silence_after_speech_s" to "inf". A list, such as "hotwords", has one
 * entry per line; a line that cannot be used is skipped, see asr_stream_warning.
 * On failure nothing changes, and `error` (NULL, or error_size bytes) contains one sentence, truncated to fit. */
ASR_API asr_status asr_settings_set(asr_settings *settings, const char *name, const char *value, char *error,
                                    size_t error_size);

/* Sets lm, neural_lm, punctuation or decoder to the bytes of the file. */
ASR_API asr_status asr_settings_set_bytes(asr_settings *settings, const char *name, const void *data, size_t size,
                                          char *error, size_t error_size);

/* The value as asr_settings_set takes it; NULL if there is no such setting, or if it has no value: a list or file that
 * is not set, a file set as bytes, a default of the model file. */
ASR_API const char *asr_settings_get(asr_settings *settings, const char *name);

/* Receives the log of a model and of its streams, which it must outlive; NULL: none. */
ASR_API void asr_settings_set_log(asr_settings *settings, asr_log_callback log, void *user_data);

/* Opens a model file, or its bytes (needed only during the call). `settings` may be NULL. On failure *model is NULL,
 * and `error` is as above. */
ASR_API asr_status asr_model_load(const char *path, const asr_settings *settings, asr_model **model, char *error,
                                  size_t error_size);
ASR_API asr_status asr_model_load_memory(const void *data, size_t size, const asr_settings *settings,
                                         asr_model **model, char *error, size_t error_size);
ASR_API void asr_model_free(asr_model *model);

/* A property of the model, by its name; NULL if it has none of this name. Every model has
 *   "language"         BCP 47 code of its language, such as "en" or "de-CH"; "" if it is unknown
 *   "sample_rate"      "16000", in Hz
 *   "chunk_ms"         the default latency of partials; the option chunk_ms overrides it
 *   "left_context_ms"  likewise
 *   "units"            the network's output units: "letters" or "word pieces"; and "phones", if it has any, names them
 *   "license"          SPDX identifier of the weights' license, "" if it is unknown
 * and the file's other metadata entries. */
ASR_API const char *asr_model_property(const asr_model *model, const char *name);

/* The name of the property with this index, from 0, in alphabetical order; NULL after the last one. */
ASR_API const char *asr_model_property_name(const asr_model *model, size_t index);

/* A new stream, with the state of one source of audio, at a rate in [1000, 768000] Hz; other rates than 16000 are
 * resampled. `settings` may be NULL; on failure as above. */
ASR_API asr_status asr_stream_new(const asr_model *model, int32_t sample_rate, const asr_settings *settings,
                                  asr_stream **stream, char *error, size_t error_size);
ASR_API void asr_stream_free(asr_stream *stream);

/* Adds num_samples samples: f32 in [-1, 1], i16 in [-32768, 32767]. Samples that are not finite count as silence. An
 * ERROR event reports them once, until the next gap, asr_stream_end_utterance or asr_stream_change. Floats far beyond 1
 * are used unchanged; an ERROR event reports them once: those in the range of i16 must be divided by 32768. Recognized
 * speech that never exceeds 0.003, 50 dB below full scale, causes one, too, because many words are then wrong. */
ASR_API asr_status asr_stream_accept_f32(asr_stream *stream, const float *samples, size_t num_samples);
ASR_API asr_status asr_stream_accept_i16(asr_stream *stream, const int16_t *samples, size_t num_samples);

/* Reports that num_samples of audio, at the stream's sample rate, were lost: ends the utterance. In [0, 2^48]; 0 does
 * nothing. */
ASR_API asr_status asr_stream_gap(asr_stream *stream, int64_t num_samples);

/* Ends the utterance here, regardless of the endpoint rules; its FINAL follows. The audio continues. */
ASR_API asr_status asr_stream_end_utterance(asr_stream *stream);

/* Ends the utterance here; later audio is recognized with these settings; NULL as in asr_stream_new. If they are
 * invalid, nothing changes. */
ASR_API asr_status asr_stream_change(asr_stream *stream, const asr_settings *settings);

/* Ends the audio: decodes the rest and ends the last utterance. A second call has no effect. */
ASR_API asr_status asr_stream_finish(asr_stream *stream);

/* Position of the next sample in the stream, in samples at 16 kHz, including gaps; -1 for NULL and while another thread
 * uses the stream. */
ASR_API int64_t asr_stream_sample_offset(asr_stream *stream);

/* A sentence about a problem that makes most words wrong, or about a skipped line of the stream's lists, including
 * those set by asr_stream_change. index: from 0; NULL after the last one. Valid until the stream's next call. */
ASR_API const char *asr_stream_warning(const asr_stream *stream, size_t index);

/* The reason why the stream's last call failed, "" if it succeeded. Valid until the next call. */
ASR_API const char *asr_stream_error(const asr_stream *stream);

typedef enum asr_event_type { ASR_PARTIAL = 0, ASR_FINAL = 1, ASR_GAP = 2, ASR_ERROR = 3 } asr_event_type;

typedef struct asr_word {
  const char *text;
  double start_s;
  double end_s;
  float confidence; /* (0, 1): the probability that the word is right */
} asr_word;

typedef struct asr_alternative {
  const char *text;      /* the words as shown, without punctuation, separated by spaces */
  float confidence;      /* the probability that this is what was said */
  const asr_word *words; /* NULL if there are none; they may begin before those of the FINAL or end after them, but
                            never reach into another utterance */
  size_t num_words;
} asr_alternative;

typedef struct asr_event {
  asr_event_type type;
  const char *text; /* the words as shown, separated by spaces; for GAP and ERROR a sentence for people */
  double start_s;
  double end_s;
  const asr_word *words; /* NULL if there are none */
  size_t num_words;
  size_t num_stable;    /* PARTIAL: leading words; a later PARTIAL changes less than 1 %, the FINAL 5 to 9 % */
  const char *endpoint; /* FINAL: what ended it, "silence_after_speech", "max_utterance" or "end_of_audio" (also before
                           a gap); else NULL. "silence_without_speech" ends an utterance without words, which has
                           no FINAL */
  const char *raw;           /* the words as recognized, separated by spaces; else "" */
  const asr_word *raw_words; /* NULL if there are none */
  size_t num_raw_words;
  const asr_alternative *alternatives; /* FINAL, with the option max_alternatives: other hypotheses, most
                                          likely first; NULL if there are none */
  size_t num_alternatives;
  size_t num_taken_back; /* FINAL: "scratch that" takes back this many earlier FINALs with words, not yet taken back */
} asr_event;

/* The oldest event not returned yet, or NULL. Valid until the next call of this function with this stream, or its end.
 */
ASR_API const asr_event *asr_stream_next_event(asr_stream *stream);

/* The same as a JSON object on one line, UTF-8, with the keys of docs/reference/events.md. */
ASR_API const char *asr_stream_next_json(asr_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
