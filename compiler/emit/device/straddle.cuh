// Loads of words that begin at any element: the two aligned words that one straddles, shifted together (CUDA C++
// Programming Guide, "Size and Alignment Requirement"; __funnelshift_r: CUDA Math API).
#pragma once
#include "global.cuh"

// Two aligned words of N bytes, `skipped` bytes of the first left out: N bytes, in `word`.
template <int N, int E>
FT_INLINE void ft_shift_words(u32* word, u32 skipped) {
  constexpr int WORDS = N / 4;
  if constexpr (N < 4) {
    word[0] >>= 8u * skipped;
  } else {
    // Whole words by halves of the distance, then the bytes of a word.
#pragma unroll
    for (int by = WORDS / 2; by >= 1; by /= 2) {
#pragma unroll
      for (int i = 0; i < WORDS + by; ++i) word[i] = (skipped & (4u * by)) ? word[i + by] : word[i];
    }
    if constexpr (E < 4) {
#pragma unroll
      for (int i = 0; i < WORDS; ++i) word[i] = __funnelshift_r(word[i], word[i + 1], 8u * (skipped % 4u));
    }
  }
}

// N bytes from `src`, a multiple of E, into N bytes of registers. The aligned N bytes that hold the first of them are
// read, and the next N where `src` is no multiple of N. Registers keep what they hold where `holds` is false.
template <int N, int E, int CACHE>
FT_INLINE void ft_load_global_straddling_if(bool holds, void* dst_regs, const void* src) {
  static_assert(N % E == 0 && N > E, "a word of several elements");
  const u32 skipped = static_cast<u32>(__cvta_generic_to_global(src)) % N;
  const u8* first = static_cast<const u8*>(src) - skipped;
  constexpr int WORDS = N / 4;
  alignas(16) u32 word[N < 4 ? 1 : 2 * WORDS] = {};
  u8* bytes = reinterpret_cast<u8*>(word);
  ft_load_global_if<N, CACHE>(holds, bytes, first);
  ft_load_global_if<N, CACHE>(holds && skipped != 0u, bytes + N, first + N);
  ft_shift_words<N, E>(word, skipped);
  // A choice and not a branch, so that the loads that follow are issued before these have arrived.
  Vec<N> kept;
  memcpy(&kept, dst_regs, N);
#pragma unroll
  for (int i = 0; i < (N < 4 ? 1 : WORDS); ++i) kept.word[i] = holds ? word[i] : kept.word[i];
  memcpy(dst_regs, &kept, N);
}

template <int N, int E, int CACHE>
FT_INLINE void ft_load_global_straddling(void* dst_regs, const void* src) {
  ft_load_global_straddling_if<N, E, CACHE>(true, dst_regs, src);
}

// The same of a tensor that is aligned itself: `first`, the aligned word that holds the first of the bytes, and how many
// of its elements come before them: the second is read where there are any. Read anyway, words of 4 bytes took up to
// 1.3 times as long (permutes of 16-bit elements on an H200).
template <int N, int E, int CACHE>
FT_INLINE void ft_load_global_both_if(bool holds, void* dst_regs, const void* first, u32 skipped) {
  constexpr int WORDS = N < 4 ? 1 : N / 4;
  alignas(16) u32 word[2 * WORDS] = {};
  u8* bytes = reinterpret_cast<u8*>(word);
  ft_load_global_if<N, CACHE>(holds, bytes, first);
  ft_load_global_if<N, CACHE>(holds && skipped != 0u, bytes + N, static_cast<const u8*>(first) + N);
  ft_shift_words<N, E>(word, skipped * E);
  Vec<N> kept;
  memcpy(&kept, dst_regs, N);
#pragma unroll
  for (int i = 0; i < WORDS; ++i) kept.word[i] = holds ? word[i] : kept.word[i];
  memcpy(dst_regs, &kept, N);
}

template <int N, int E, int CACHE>
FT_INLINE void ft_load_global_both(void* dst_regs, const void* first, u32 skipped) {
  constexpr int WORDS = N < 4 ? 1 : N / 4;
  alignas(16) u32 word[2 * WORDS] = {};
  u8* bytes = reinterpret_cast<u8*>(word);
  ft_load_global<N, CACHE>(bytes, first);
  ft_load_global_if<N, CACHE>(skipped != 0u, bytes + N, static_cast<const u8*>(first) + N);
  ft_shift_words<N, E>(word, skipped * E);
  memcpy(dst_regs, word, N);
}
