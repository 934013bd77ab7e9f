// Integer types of known size, vectors of registers, and the inline marker. Compiled by NVRTC, which has no headers.
#pragma once

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

static_assert(sizeof(i16) == 2 && sizeof(i32) == 4 && sizeof(i64) == 8, "sizes of CUDA C++");

#define FT_INLINE __device__ __forceinline__

// N bytes that one thread moves in one access; aligned as the hardware wants it (PTX ISA, "Addresses as Operands").
template <int N>
struct alignas(N) Vec {
  static_assert(N == 4 || N == 8 || N == 16, "a vector register access has 4, 8 or 16 bytes");
  u32 word[N / 4];
};
template <>
struct alignas(1) Vec<1> {
  u8 word[1];
};
template <>
struct alignas(2) Vec<2> {
  u16 word[1];
};
