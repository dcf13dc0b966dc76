/* Captions of a WAV file, or live of raw 16-bit samples at 16 kHz from standard input:
 *
 *     transcribe model.onnx speech.wav language-model.lm [punctuation.onnx [neural-lm.onnx]]
 *     arecord -q -t raw -f S16_LE -r 16000 -c 1 | transcribe model.onnx - language-model.lm
 */
#include <asr_stream/asr_stream.h>
#include <stdio.h>
#include <string.h>

#include "wav.h"

/* Writes partials to standard error, each over the previous one, and finals with their times to standard output. */
static void print_events(asr_stream *stream) {
  const asr_event *event;
  while ((event = asr_stream_next_event(stream)) != NULL) {
    if (event->type == ASR_PARTIAL) {
      fprintf(stderr, "\r\033[K%s", event->text);
    } else {
      fprintf(stderr, "\r\033[K");
      printf("%8.2f %8.2f  %s\n", event->start_s, event->end_s, event->text);
      fflush(stdout);
    }
  }
}

static int transcribe(asr_stream *stream, FILE *file, uint32_t num_samples) {
  unsigned char bytes[3200]; /* 0.1 s */
  int16_t samples[1600];
  size_t count, i;
  while (num_samples && (count = fread(bytes, 2, num_samples < 1600 ? num_samples : 1600, file)) > 0) {
    for (i = 0; i < count; i++) samples[i] = (int16_t)wav_number(bytes + 2 * i, 2);
    if (asr_stream_accept_i16(stream, samples, count) != ASR_OK) return 0;
    print_events(stream);
    if (num_samples != UINT32_MAX) num_samples -= (uint32_t)count;
  }
  if (asr_stream_finish(stream) != ASR_OK) return 0;
  print_events(stream);
  return 1;
}

int main(int argc, char **argv) {
  asr_settings *settings = asr_settings_new();
  asr_model *model = NULL;
  asr_stream *stream = NULL;
  char error[512];
  const char *problem = NULL;
  uint32_t num_samples = UINT32_MAX;
  int live, done = 0;
  FILE *file;
  if (argc < 4 || argc > 6) {
    fprintf(stderr, "usage: %s MODEL.onnx FILE.wav|- LANGUAGE_MODEL.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]\n", argv[0]);
    return 2;
  }
  /* Without a language model, the bundled model spells words by their sound, mostly wrong. */
  asr_settings_set(settings, "lm", argv[3], NULL, 0);
  if (argc >= 5) asr_settings_set(settings, "punctuation", argv[4], NULL, 0);
  if (argc == 6) asr_settings_set(settings, "neural_lm", argv[5], NULL, 0);
  live = !strcmp(argv[2], "-");
  file = live ? stdin : fopen(argv[2], "rb");
  if (file == NULL) {
    perror(argv[2]);
    return 1;
  }
  if (!live) problem = wav_open(file, &num_samples);
  if (problem) {
    fprintf(stderr, "%s: %s\n", argv[2], problem);
  } else if (asr_model_load(argv[1], settings, &model, error, sizeof error) != ASR_OK ||
             asr_stream_new(model, ASR_SAMPLE_RATE, NULL, &stream, error, sizeof error) != ASR_OK) {
    fprintf(stderr, "%s\n", error);
  } else if (!(done = transcribe(stream, file, num_samples))) {
    fprintf(stderr, "%s\n", asr_stream_error(stream));
  }
  asr_stream_free(stream);
  asr_model_free(model);
  asr_settings_free(settings);
  if (!live) fclose(file);
  return done ? 0 : 1;
}
