// Captions of a WAV file, or live of raw 16-bit samples at 16 kHz from standard input:
//
//     transcribe model.onnx speech.wav language-model.lm [punctuation.onnx [neural-lm.onnx]]
//     arecord -q -t raw -f S16_LE -r 16000 -c 1 | transcribe model.onnx - language-model.lm
#include <asr_stream/asr_stream.hpp>
#include <cstdio>
#include <exception>
#include <iomanip>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "wav.h"

namespace {

// Writes partials to standard error, each over the previous one, and finals with their times to standard output.
void print_events(asr::Stream& stream) {
  while (const auto event = stream.next_event()) {
    std::cerr << "\r\033[K";
    if (event->type == ASR_PARTIAL) {
      std::cerr << event->text;
    } else {
      std::cout << std::fixed << std::setprecision(2) << std::setw(8) << event->start_s << ' ' << std::setw(8)
                << event->end_s << "  " << event->text << std::endl;
    }
  }
}

void transcribe(asr::Stream& stream, std::FILE* file, std::uint32_t num_samples) {
  std::vector<unsigned char> bytes(3200);  // 0.1 s
  std::vector<std::int16_t> samples(1600);
  while (num_samples > 0) {
    const std::size_t count = std::fread(bytes.data(), 2, num_samples < 1600 ? num_samples : 1600, file);
    if (count == 0) break;
    for (std::size_t i = 0; i < count; ++i) samples[i] = static_cast<std::int16_t>(wav_number(&bytes[2 * i], 2));
    stream.accept(samples.data(), count);
    print_events(stream);
    if (num_samples != UINT32_MAX) num_samples -= static_cast<std::uint32_t>(count);
  }
  stream.finish();
  print_events(stream);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4 || argc > 6) {
    std::cerr << "usage: " << argv[0] << " MODEL.onnx FILE.wav|- LANGUAGE_MODEL.lm [PUNCTUATION.onnx [NEURAL_LM.onnx]]\n";
    return 2;
  }
  const std::string path = argv[2];
  const bool live = path == "-";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(
      live ? stdin : std::fopen(path.c_str(), "rb"), live ? [](std::FILE*) { return 0; } : std::fclose);
  if (!file) throw std::runtime_error(path + " cannot be read");
  std::uint32_t num_samples = UINT32_MAX;
  const char* problem = live ? nullptr : wav_open(file.get(), &num_samples);
  if (problem) throw std::runtime_error(path + ": " + problem);
  asr::Settings settings;
  settings.set("lm", argv[3]);  // without it, the bundled model spells words by their sound, mostly wrong
  if (argc >= 5) settings.set("punctuation", argv[4]);
  if (argc == 6) settings.set("neural_lm", argv[5]);
  const asr::Model model(argv[1], settings);
  asr::Stream stream(model);
  transcribe(stream, file.get(), num_samples);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
