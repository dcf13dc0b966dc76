/* Captions from sherpa-onnx's C API: MODEL TOKENS < samples, 16 kHz mono float32 in +-1; the text goes to stdout. */
#include <stdio.h>
#include <string.h>

#include "sherpa-onnx/c-api/c-api.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  SherpaOnnxOnlineRecognizerConfig config;
  memset(&config, 0, sizeof config);
  config.feat_config.sample_rate = 16000;
  config.feat_config.feature_dim = 80;
  config.model_config.zipformer2_ctc.model = argv[1];
  config.model_config.tokens = argv[2];
  config.model_config.num_threads = 1;
  config.model_config.provider = "cpu";
  config.decoding_method = "greedy_search";
  const SherpaOnnxOnlineRecognizer* recognizer = SherpaOnnxCreateOnlineRecognizer(&config);
  if (recognizer == NULL) return 1;
  const SherpaOnnxOnlineStream* stream = SherpaOnnxCreateOnlineStream(recognizer);
  float samples[1600];
  size_t num_samples;
  while ((num_samples = fread(samples, sizeof(float), 1600, stdin)) > 0) {
    SherpaOnnxOnlineStreamAcceptWaveform(stream, 16000, samples, (int32_t)num_samples);
    while (SherpaOnnxIsOnlineStreamReady(recognizer, stream)) SherpaOnnxDecodeOnlineStream(recognizer, stream);
  }
  SherpaOnnxOnlineStreamInputFinished(stream);
  while (SherpaOnnxIsOnlineStreamReady(recognizer, stream)) SherpaOnnxDecodeOnlineStream(recognizer, stream);
  const SherpaOnnxOnlineRecognizerResult* result = SherpaOnnxGetOnlineStreamResult(recognizer, stream);
  puts(result->text);
  SherpaOnnxDestroyOnlineRecognizerResult(result);
  SherpaOnnxDestroyOnlineStream(stream);
  SherpaOnnxDestroyOnlineRecognizer(recognizer);
  return 0;
}
