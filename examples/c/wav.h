/* Finds the samples in a WAV file of 16-bit PCM, one channel, 16 kHz. Trusts nothing in the file. */
#ifndef WAV_H
#define WAV_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static uint32_t wav_number(const unsigned char *bytes, int count) { /* little-endian */
  uint32_t value = 0;
  while (count--) value = value << 8 | bytes[count];
  return value;
}

static int wav_skip(FILE *file, uint64_t count) { /* also works for pipes; returns 0 if the file ends before */
  unsigned char buffer[4096];
  while (count) {
    size_t part = count < sizeof buffer ? (size_t)count : sizeof buffer;
    if (fread(buffer, 1, part, file) != part) return 0;
    count -= part;
  }
  return 1;
}

/* Leaves `file` at the first sample. Returns NULL and how many samples follow (UINT32_MAX: up to the end of the file),
 * or else a sentence on what is wrong. */
static const char *wav_open(FILE *file, uint32_t *num_samples) {
  unsigned char head[12], format[40];
  int has_format = 0;
  if (fread(head, 1, 12, file) != 12 || memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4)) {
    return "this is not a WAV file";
  }
  while (fread(head, 1, 8, file) == 8) {
    uint32_t size = wav_number(head + 4, 4);
    if (!memcmp(head, "fmt ", 4)) {
      uint32_t used = size < sizeof format ? size : (uint32_t)sizeof format, kind;
      memset(format, 0, sizeof format);
      if (size < 16 || fread(format, 1, used, file) != used) return "this WAV file ends within its header";
      if (!wav_skip(file, (uint64_t)size - used + size % 2)) return "this WAV file ends within its header";
      kind = wav_number(format, 2);
      if (kind == 0xfffe) kind = wav_number(format + 24, 2); /* extensible format: the kind is stored later */
      if (kind != 1 || wav_number(format + 2, 2) != 1 || wav_number(format + 4, 4) != 16000 ||
          wav_number(format + 14, 2) != 16) {
        return "this WAV file is not 16-bit PCM with one channel at 16 kHz: sox IN.wav -r 16000 -c 1 -b 16 OUT.wav";
      }
      has_format = 1;
    } else if (!memcmp(head, "data", 4)) {
      if (!has_format) return "this WAV file has samples before it says of what kind";
      *num_samples = size == 0 || size == UINT32_MAX ? UINT32_MAX : size / 2; /* streams do not state their length */
      return NULL;
    } else if (!wav_skip(file, (uint64_t)size + size % 2)) {
      break;
    }
  }
  return "this WAV file has no samples";
}

#endif
