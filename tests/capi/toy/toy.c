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
  asr_settings *settings;
  asr_model *model;
  asr_stream *stream, *other;
  const char *name;
  int16_t samples[1600];
  size_t count, logged = 0, names = 0;
  EXPECT(argc == 5);
  EXPECT((settings = asr_settings_new()) != NULL);
  EXPECT(asr_settings_set(settings, "lm", argv[2], error, sizeof error) == ASR_OK);
  EXPECT(asr_settings_set(settings, "punctuation", argv[3], error, sizeof error) == ASR_OK);
  EXPECT(asr_settings_set(settings, "neural_lm", argv[4], error, sizeof error) == ASR_OK);
  asr_settings_set_log(settings, log_line, &logged);
  EXPECT(asr_model_load("nowhere.onnx", NULL, &model, error, 8) == ASR_FILE_UNREADABLE && strlen(error) == 7);
  EXPECT(asr_model_load(argv[1], settings, &model, error, sizeof error) == ASR_OK && logged > 0);
  while ((name = asr_model_property_name(model, names)) != NULL) EXPECT(asr_model_property(model, name) && ++names);
  EXPECT(names > 20 && !strcmp(asr_model_property(model, "language"), "en"));

  EXPECT(asr_settings_set(settings, "chunk_ms", "50", error, sizeof error) == ASR_INVALID_ARGUMENT);
  EXPECT(asr_settings_set(settings, "chunk_ms", "320", error, sizeof error) == ASR_OK);
  EXPECT(!strcmp(asr_settings_get(settings, "chunk_ms"), "320"));
  EXPECT(asr_stream_new(model, ASR_SAMPLE_RATE, settings, &stream, error, sizeof error) == ASR_OK);
  EXPECT(asr_stream_new(model, ASR_MAX_SAMPLE_RATE, NULL, &other, error, sizeof error) == ASR_OK);
  asr_settings_free(settings); /* nothing refers to it */
  asr_model_free(model); /* the streams keep it alive */
  while ((count = fread(samples, sizeof *samples, 1600, stdin)) > 0) {
    EXPECT(asr_stream_accept_i16(stream, samples, count) == ASR_OK);
    print_finals(stream);
  }
  EXPECT(asr_stream_end_utterance(stream) == ASR_OK);
  EXPECT(asr_stream_change(stream, NULL) == ASR_OK);
  EXPECT(asr_stream_gap(stream, 16000) == ASR_OK);
  EXPECT(asr_stream_finish(stream) == ASR_OK && asr_stream_finish(stream) == ASR_OK);
  EXPECT(asr_stream_accept_f32(stream, NULL, 0) == ASR_FINISHED && *asr_stream_error(stream));
  print_finals(stream);
  asr_stream_free(stream);
  asr_stream_free(other); /* without any audio */
  return 0;
}
