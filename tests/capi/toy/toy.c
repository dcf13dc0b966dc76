/* Walks through the contract at the head of asr_stream.h, and captions raw 16-bit samples at 16 kHz of standard input:
 *
 *     toy MODEL.onnx LANGUAGE_MODEL.lm PUNCTUATION.onnx NEURAL_LM.onnx < speech.raw
 *
 * Finals go to standard output. What is not as the header says ends the program with the line where it was expected. */
#include <asr_stream/asr_stream.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                            \
  do {                                                               \
    if (!(condition)) {                                              \
      fprintf(stderr, "toy.c:%d: %s; %s\n", __LINE__, #condition, error); \
      exit(1);                                                       \
    }                                                                \
  } while (0)

static char error[256];

static void log_line(void *user_data, asr_log_level level, const char *text) {
  *(size_t *)user_data += level == ASR_LOG_INFO ? strlen(text) : 0;
}

/* Structs without _init, each with its own status. */
static void forget(const char *path, const asr_model *loaded) {
  asr_model_options model_options;
  asr_options options;
  asr_assets assets;
  asr_model *model = (asr_model *)error;
  asr_stream *stream = (asr_stream *)error;
  memset(&model_options, 0, sizeof model_options);
  memset(&options, 0, sizeof options);
  memset(&assets, 0xa5, sizeof assets);
  EXPECT(asr_model_load(path, &model_options, &model, error, sizeof error) == ASR_NOT_INITIALIZED && model == NULL);
  EXPECT(strstr(error, "asr_model_options_init"));
  EXPECT(asr_options_set(&options, "beam_size", "8", error, sizeof error) == ASR_NOT_INITIALIZED);
  EXPECT(asr_stream_new(loaded, 16000, &options, NULL, &stream, error, sizeof error) == ASR_NOT_INITIALIZED);
  EXPECT(asr_stream_new(loaded, 16000, NULL, &assets, &stream, error, sizeof error) == ASR_NOT_INITIALIZED);
  EXPECT(stream == NULL && strstr(error, "asr_assets_init"));
}

static void print_finals(asr_stream *stream) {
  const asr_event *event;
  while ((event = asr_stream_next_event(stream)) != NULL) {
    size_t i, length = strlen(event->text) + strlen(event->raw);
    for (i = 0; i < event->num_words; i++) length += strlen(event->words[i].text);
    for (i = 0; i < event->num_raw_words; i++) length += strlen(event->raw_words[i].text);
    EXPECT(length > 0 || event->type == ASR_PARTIAL);
    EXPECT((event->endpoint != NULL) == (event->type == ASR_FINAL));
    if (event->type == ASR_FINAL) printf("%8.2f %8.2f  %s\n", event->start_s, event->end_s, event->text);
  }
}

int main(int argc, char **argv) {
  asr_model_options model_options;
  asr_options options;
  asr_model *model;
  asr_stream *stream, *other;
  const char *name;
  int16_t samples[1600];
  size_t count, logged = 0, names = 0;
  EXPECT(argc == 5);
  EXPECT(asr_layout("asr_event") == sizeof(asr_event) && asr_layout("asr_word") == sizeof(asr_word));
  EXPECT(asr_layout("asr_stream") == SIZE_MAX && asr_layout(NULL) == SIZE_MAX);

  asr_model_options_init(&model_options, sizeof model_options);
  model_options.lm_path = argv[2];
  model_options.punctuation_path = argv[3];
  model_options.neural_lm_path = argv[4];
  model_options.log = log_line;
  model_options.log_user_data = &logged;
  EXPECT(asr_model_load("nowhere.onnx", NULL, &model, error, 8) == ASR_FILE_UNREADABLE && strlen(error) == 7);
  EXPECT(asr_model_load(argv[1], &model_options, &model, error, sizeof error) == ASR_OK && logged > 0);
  forget(argv[1], model);
  while ((name = asr_model_property_name(model, names)) != NULL) EXPECT(asr_model_property(model, name) && ++names);
  EXPECT(names > 20 && !strcmp(asr_model_property(model, "language"), "en"));

  asr_options_init(&options, sizeof options);
  EXPECT(asr_options_set(&options, "chunk_ms", "50", error, sizeof error) == ASR_INVALID_ARGUMENT);
  EXPECT(asr_options_set(&options, "chunk_ms", "320", error, sizeof error) == ASR_OK);
  EXPECT(asr_stream_new(model, ASR_SAMPLE_RATE, &options, NULL, &stream, error, sizeof error) == ASR_OK);
  EXPECT(asr_stream_new(model, ASR_MAX_SAMPLE_RATE, NULL, NULL, &other, error, sizeof error) == ASR_OK);
  asr_model_free(model); /* the streams keep it alive */
  while ((count = fread(samples, sizeof *samples, 1600, stdin)) > 0) {
    EXPECT(asr_stream_accept_i16(stream, samples, count) == ASR_OK);
    print_finals(stream);
  }
  EXPECT(asr_stream_end_utterance(stream) == ASR_OK);
  EXPECT(asr_stream_change(stream, NULL, NULL) == ASR_OK);
  EXPECT(asr_stream_gap(stream, 16000) == ASR_OK);
  EXPECT(asr_stream_finish(stream) == ASR_OK && asr_stream_finish(stream) == ASR_OK);
  EXPECT(asr_stream_accept_f32(stream, NULL, 0) == ASR_FINISHED && *asr_stream_error(stream));
  print_finals(stream);
  asr_stream_free(stream);
  asr_stream_free(other); /* without any audio */
  return 0;
}
