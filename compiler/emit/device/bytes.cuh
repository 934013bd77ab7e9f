// Bytes of registers picked and put together four at a time.
#pragma once
#include "types.cuh"

// COUNT bytes: to[i] = from[first + i * STRIDE]. A word of four words' bytes takes three permutations (PTX ISA, prmt), two
// of which serve the next byte of the same words as well: 8 for 4 x 4 bytes. Of every other byte it takes one, of two
// words; `first` is then even or odd from a whole word on. `first` is constant once loops are unrolled.
template <int COUNT, int STRIDE>
FT_INLINE void ft_gather_bytes(void* to, const void* from, u32 first) {
  static_assert(COUNT % 4 == 0 && (STRIDE % 4 == 0 || STRIDE == 2), "whole words, on whole words");
  const u32 byte = first % 4;
  if constexpr (STRIDE == 2) {
#pragma unroll
    for (int group = 0; group < COUNT; group += 4) {
      u32 word[2];
      memcpy(word, static_cast<const u8*>(from) + group * STRIDE + first - byte, 8);
      const u32 made = __byte_perm(word[0], word[1], byte == 0 ? 0x6420u : 0x7531u);
      memcpy(static_cast<u8*>(to) + group, &made, 4);
    }
    return;
  }
#pragma unroll
  for (int group = 0; group < COUNT; group += 4) {
    u32 word[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      memcpy(&word[i], static_cast<const u8*>(from) + (group + i) * STRIDE + first - byte, 4);
    }
    const u32 pair = byte < 2 ? 0x5140u : 0x7362u;
    const u32 half = byte % 2 == 0 ? 0x5410u : 0x7632u;
    const u32 made = __byte_perm(__byte_perm(word[0], word[1], pair), __byte_perm(word[2], word[3], pair), half);
    memcpy(static_cast<u8*>(to) + group, &made, 4);
  }
}
