#!/bin/sh
# Prints sys.rs, by bindgen 0.60: the C header without asr_options, which is used by names alone.
bindgen "$(dirname "$0")/../../../csrc/include/asr_stream/asr_stream.h" --no-layout-tests --no-doc-comments \
  --size_t-is-usize --no-prepend-enum-name --disable-header-comment \
  --allowlist-function 'asr_.*' --allowlist-var 'ASR_.*' --allowlist-type 'asr_(status|event_type)' \
  --blocklist-type 'asr_options|__int.*' \
  --raw-line '//! Written by sys.sh: the C header without asr_options, which is used by names alone.' \
  --raw-line '#[repr(C)] pub struct asr_options { _unused: [u8; 0] }'
