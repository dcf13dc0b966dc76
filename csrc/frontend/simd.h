// ASR_STREAM_MULTIVERSION compiles a function for several x86-64 levels and selects one when the library is loaded. The
// build disables contraction to fused multiply-add, so all versions give the same bits.
#pragma once

#if defined(ASR_STREAM_HAVE_TARGET_CLONES)
#define ASR_STREAM_MULTIVERSION __attribute__((target_clones("arch=haswell", "default")))
#else
#define ASR_STREAM_MULTIVERSION
#endif

#if defined(_MSC_VER)
#define ASR_STREAM_ALWAYS_INLINE __forceinline
#else
#define ASR_STREAM_ALWAYS_INLINE inline __attribute__((always_inline))
#endif

#define ASR_STREAM_RESTRICT __restrict
