/* libasr_stream: streaming speech recognition from one model file. C99.
 *
 *     asr_model *model;  asr_stream *stream;  char error[256];
 *     asr_model_load("model.onnx", NULL, &model, error, sizeof error);
 *     asr_stream_new(model, ASR_SAMPLE_RATE, NULL, NULL, &stream, error, sizeof error);
 *     while (...) {
 *       asr_stream_accept_i16(stream, samples, num_samples);
 *       for (const asr_event *e; (e = asr_stream_next_event(stream)) != NULL;) puts(e->text);
 *     }
 *     asr_stream_finish(stream);  ... the last events ...
 *     asr_stream_free(stream);  asr_model_free(model);
 *
 * THE CONTRACT
 *
 * Audio. Mono, of the sample rate of asr_stream_new, in pieces of any length. The result depends on the audio alone,
 * not on how it was cut, and is the same as in Python: text, times, confidence.
 *
 * Events. They come oldest first. A PARTIAL is the utterance so far; the next PARTIAL or FINAL replaces it, and an
 * empty one takes it back. A FINAL is an utterance that has ended (an endpoint); it never changes, and it is empty only
 * where nothing but spoken commands was said. A GAP comes after the FINAL of the speech before it. An ERROR reports odd
 * audio; the stream goes on. Times are seconds from the stream's first sample, gaps included.
 *
 * Threads. An asr_model is immutable: any number of threads and streams share it, and it may be freed before its
 * streams. An asr_stream is for one thread at a time, any thread: a second one is refused with ASR_BUSY. Free a
 * stream only when no call uses it. The library never waits and starts no thread of its own, except for those of ONNX
 * Runtime where asr_model_options.num_threads is not 1; all work is done within accept, gap, end_utterance, change and
 * finish.
 *
 * Failures. The library never exits, prints, or lets an exception out: every failure comes back as a status, with one
 * sentence about it. A call that is refused changes nothing. Damaged files and any argument but a wrong pointer are
 * safe.
 *
 * Texts. Every `char *` is UTF-8 and ends with a NUL. Data from the app is copied before the call returns. The library
 * owns what it returns, and it stays valid
 *   - asr_version, asr_status_text: as long as the library is loaded,
 *   - asr_model_property, asr_model_property_name: as long as the model,
 *   - asr_stream_error, asr_stream_warning: until the next call with this stream,
 *   - all of an asr_event: until the next asr_stream_next_event with this stream, or asr_stream_free,
 *   - the text of an asr_log_callback: during that call.
 * asr_model_free(NULL) and asr_stream_free(NULL) do nothing.
 *
 * Structs. An app fills in the defaults with the struct's _init, then changes members. A struct whose _init was
 * forgotten is refused with ASR_NOT_INITIALIZED. Options of recognition have names, too (asr_options_set): a binding
 * that uses the names needs no change for a new option.
 *
 * ABI. Later versions add functions and statuses, and members to the ends of asr_model_options, asr_options, asr_assets
 * and asr_event; asr_word and asr_alternative stay as they are, and so does the meaning of every function and number.
 * An app that was compiled with an older header runs with a newer library. asr_layout tells a binding what the loaded
 * library has. Before 1.0 a minor version may break this.
 *
 * Versions.
 *   0.1: all that is here.
 *
 * docs/reference/c_limits.md lists what is refused, what is cut, and how to ask first.
 *
 * ONNX Runtime (1.5 or newer) is loaded when the first model is: from asr_model_options.onnxruntime_path; or else from
 * the file that the environment variable ASR_STREAM_ONNXRUNTIME names; or else under its usual name
 * (libonnxruntime.so.1, libonnxruntime.so, libonnxruntime.dylib, onnxruntime.dll).
 */
#ifndef ASR_STREAM_H
#define ASR_STREAM_H

#include "options.h"

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

/* Hz: of the model, to which audio of other rates is resampled; and the rates that a stream takes */
#define ASR_SAMPLE_RATE 16000
#define ASR_MIN_SAMPLE_RATE 1000
#define ASR_MAX_SAMPLE_RATE 768000

typedef struct asr_model asr_model;
typedef struct asr_stream asr_stream;

typedef enum asr_status {
  ASR_OK = 0,
  ASR_INVALID_ARGUMENT = 1,    /* a value outside its range; a NULL where none may be */
  ASR_FILE_UNREADABLE = 2,     /* there is no such file, or it cannot be read */
  ASR_FILE_DAMAGED = 3,        /* not an asr-stream model or language model, or a damaged one */
  ASR_RUNTIME_UNAVAILABLE = 4, /* ONNX Runtime was not found, or is too old */
  ASR_OUT_OF_MEMORY = 5,
  ASR_BUSY = 6,                /* another thread is using the stream */
  ASR_FINISHED = 7,            /* audio after asr_stream_finish */
  ASR_FAILED = 8,              /* the network could not be run; every later call fails, too. Events from before can
                                  still be taken */
  ASR_NOT_INITIALIZED = 9      /* an options struct whose _init was not called, or one of a newer header */
} asr_status;

/* The meaning of a status, in a few words; never NULL. */
ASR_API const char *asr_status_text(asr_status status);

/* "0.1.0" */
ASR_API const char *asr_version(void);

/* The layout of this header's structs in the loaded library, in bytes: the size of "asr_event", the offset of
 * "asr_event.words"; SIZE_MAX: the library has none of this name. A binding that was compiled, or written down, apart
 * from the library compares both when it loads the library. */
ASR_API size_t asr_layout(const char *name);

typedef enum asr_log_level { ASR_LOG_ERROR = 0, ASR_LOG_INFO = 1 } asr_log_level;

/* Called on the thread whose call is being answered. `text` is valid during the call only. */
typedef void (*asr_log_callback)(void *user_data, asr_log_level level, const char *text);

/* How to open a model. Defaults: asr_model_options_init. */
typedef struct asr_model_options {
  size_t struct_size;           /* sizeof(asr_model_options) */
  const char *onnxruntime_path; /* file of the ONNX Runtime library; NULL: see above */
  const char *lm_path;          /* language model, a file of `asr lm`; NULL: none, and a model with phones, such as the
                                   bundled one, makes about five times as many errors: the log says so */
  const void *lm_data;          /* or that file's bytes; needed during the call only */
  size_t lm_size;
  int32_t num_threads;          /* CPU threads inside one operator, [0, 1024], 0: all cores; 1 */
  int32_t reserved;             /* 0 */
  asr_log_callback log;         /* NULL: none. It must outlive the model and its streams. */
  void *log_user_data;
  const char *punctuation_path; /* model for case and punctuation, a file of `asr export`, on which endpoints
                                   depend too; NULL: none, and formatted text is in small letters */
  const void *punctuation_data; /* or that file's bytes; needed during the call only */
  size_t punctuation_size;
  const char *neural_lm_path;   /* neural language model that rescores finals, a file of `asr export`, for a language
                                   model with pronunciations; NULL: none */
  const void *neural_lm_data;   /* or that file's bytes; needed during the call only */
  size_t neural_lm_size;
} asr_model_options;

/* Files and lists of a stream, besides the model. Defaults: asr_assets_init. All strings are copied. */
typedef struct asr_assets {
  size_t struct_size;   /* sizeof(asr_assets) */
  const char *hotwords; /* words and phrases that are expected, one a line, as they are to be written; behind = what it
                           sounds like, behind a colon or a tab a boost of its own; lines that cannot be used are left
                           out, see asr_stream_warning; NULL: none */
  const char *phrases;  /* a grammar that replaces free speech, one phrase a line: other speech becomes "[unk]"; without
                           language model and hotwords; NULL: free speech */
  const char *mask;     /* words and phrases to be shown as stars, one a line; NULL: none */
  int32_t use_lm;       /* 1: the model's language model, if it has one; 0: none, as greedy search needs it; 1 */
  int32_t reserved;     /* 0 */
  const char *replace;      /* what is written in place of words, one a line, as "my address -> 12 Main Street"; NULL:
                               nothing */
  const char *command_list; /* spoken commands of one's own, one a line, as "next item -> new line"; it turns
                               asr_options.commands on; NULL: none */
} asr_assets;

/* Fill in the defaults: asr_options options; asr_options_init(&options, sizeof options); */
ASR_API void asr_model_options_init(asr_model_options *options, size_t struct_size);
ASR_API void asr_options_init(asr_options *options, size_t struct_size);
ASR_API void asr_assets_init(asr_assets *assets, size_t struct_size);

/* Sets an option by its name, such as "beam_size" to "64", "second_pass" to "false", "search" to "beam". `options` has
 * been initialized. On failure nothing changes, and `error` is as for asr_model_load. */
ASR_API asr_status asr_options_set(asr_options *options, const char *name, const char *value, char *error,
                                   size_t error_size);

/* Opens a model file, or the bytes of one (needed during the call only). `options` may be NULL. On failure *model is
 * NULL, and `error` (NULL, or error_size bytes) holds one sentence, cut to fit. */
ASR_API asr_status asr_model_load(const char *path, const asr_model_options *options, asr_model **model, char *error,
                                  size_t error_size);
ASR_API asr_status asr_model_load_memory(const void *data, size_t size, const asr_model_options *options,
                                         asr_model **model, char *error, size_t error_size);
ASR_API void asr_model_free(asr_model *model);

/* A property of the model, by its name; NULL: it has none of this name. Each model has
 *   "language"         ISO 639-1 code of what it writes, "" if it is unknown
 *   "sample_rate"      "16000", in Hz
 *   "chunk_ms"         the latency of partials by default; the option chunk_ms sets another one
 *   "left_context_ms"  likewise
 *   "units"            what the network writes: "letters" or "word pieces"; and "phones", if it has any, names them
 *   "license"          SPDX identifier of the weights' license, "" if it is unknown
 * and its file's other metadata entries. */
ASR_API const char *asr_model_property(const asr_model *model, const char *name);

/* The name of the model's property with this index, from 0, in alphabetical order; NULL: there are no more. */
ASR_API const char *asr_model_property_name(const asr_model *model, size_t index);

/* A new stream: all state of one source of audio, whose rate is in [1000, 768000] Hz; anything but 16000 is resampled.
 * `options` and `assets` may be NULL; failure as above. */
ASR_API asr_status asr_stream_new(const asr_model *model, int32_t sample_rate, const asr_options *options,
                                  const asr_assets *assets, asr_stream **stream, char *error, size_t error_size);
ASR_API void asr_stream_free(asr_stream *stream);

/* Continue with num_samples samples: f32 in [-1, 1], i16 in [-32768, 32767]. Samples that are not finite count as
 * silence, and an ERROR event says so, once until the next gap. */
ASR_API asr_status asr_stream_accept_f32(asr_stream *stream, const float *samples, size_t num_samples);
ASR_API asr_status asr_stream_accept_i16(asr_stream *stream, const int16_t *samples, size_t num_samples);

/* num_samples of audio, at the stream's sample rate, were lost here: ends the utterance; what follows is recognized
 * afresh. In [0, 2^48]; 0 does nothing. */
ASR_API asr_status asr_stream_gap(asr_stream *stream, int64_t num_samples);

/* Ends the utterance here, whatever the endpoint rules say; its FINAL follows, and the audio goes on. */
ASR_API asr_status asr_stream_end_utterance(asr_stream *stream);

/* The same, and what follows is recognized with these options and assets; NULL as in asr_stream_new. Where they are
 * wrong, nothing changes. */
ASR_API asr_status asr_stream_change(asr_stream *stream, const asr_options *options, const asr_assets *assets);

/* No more audio: the rest is decoded, the last utterance reported. Twice is once. */
ASR_API asr_status asr_stream_finish(asr_stream *stream);

/* Position of the next sample in the stream, in samples of 16 kHz, gaps included; -1 for NULL and while another thread
 * uses the stream. */
ASR_API int64_t asr_stream_sample_offset(asr_stream *stream);

/* A sentence about a line of the lists that the stream was made with, or changed to, and that is left out. index: from
 * 0; NULL: there are no more. Valid until the stream's next call. */
ASR_API const char *asr_stream_warning(const asr_stream *stream, size_t index);

/* Why the stream's last call failed, "" if it did not. Valid until its next call. */
ASR_API const char *asr_stream_error(const asr_stream *stream);

typedef enum asr_event_type { ASR_PARTIAL = 0, ASR_FINAL = 1, ASR_GAP = 2, ASR_ERROR = 3 } asr_event_type;

typedef struct asr_word {
  const char *text;
  double start_s;
  double end_s;
  float confidence; /* (0, 1): the probability that it is right */
} asr_word;

typedef struct asr_alternative {
  const char *text;      /* words as they are shown, without punctuation, with a space between them */
  float confidence;      /* the probability that this is what was said */
  const asr_word *words; /* NULL if there are none */
  size_t num_words;
} asr_alternative;

typedef struct asr_event {
  asr_event_type type;
  const char *text; /* words as they are shown, a space between them; of GAP and ERROR a sentence for people */
  double start_s;
  double end_s;
  const asr_word *words; /* NULL if there are none */
  size_t num_words;
  size_t num_stable;    /* of PARTIAL: leading words of which less than 1 % change in a later PARTIAL; else 0 */
  const char *endpoint; /* of FINAL, what ended it: "silence_after_speech", "silence_without_speech", "max_utterance" or
                           "end_of_audio" (a gap is one too); else NULL */
  const char *raw;           /* words as they are recognized, with a space between them; else "" */
  const asr_word *raw_words; /* NULL if there are none */
  size_t num_raw_words;
  const asr_alternative *alternatives; /* of FINAL, with the option max_alternatives: other sentences that it may have
                                          been, the likeliest first; NULL if there are none */
  size_t num_alternatives;
  size_t num_taken_back; /* of FINAL: so many FINALs before it, that are not taken back already, are ("scratch that") */
} asr_event;

/* The oldest event not yet taken, or NULL. Valid until the next call of this function with this stream, or its end. */
ASR_API const asr_event *asr_stream_next_event(asr_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
