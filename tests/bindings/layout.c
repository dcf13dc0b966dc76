/* Replaces asr_layout by that of a different version of libasr_stream: returns LAYOUT_BYTES for the name LAYOUT_NAME.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

size_t asr_layout(const char *name) {
  size_t (*next)(const char *) = (size_t (*)(const char *))dlsym(RTLD_NEXT, "asr_layout");
  return strcmp(name, getenv("LAYOUT_NAME")) ? next(name) : (size_t)atoll(getenv("LAYOUT_BYTES"));
}
