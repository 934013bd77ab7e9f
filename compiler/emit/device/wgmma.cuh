// Asynchronous products of warp groups (PTX ISA, "wgmma.mma_async", "wgmma.fence", "wgmma.commit_group",
// "wgmma.wait_group"). sm_90a. All threads of four neighbouring warps come to each of them together, with one descriptor.
#pragma once
#include "matrix_descriptor.cuh"
#include "mbarrier.cuh"

// What was done to registers comes before the instructions that use them.
FT_INLINE void ft_mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes the group of the instructions since the last one.
FT_INLINE void ft_mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// At most N groups are under way from here on. Uses of their registers have to be kept behind it (ft_opaque).
template <int N>
FT_INLINE void ft_mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Uses of N registers stay on their side of this place: no instruction, and no copy of them.
template <int N>
FT_INLINE void ft_mma_hold(float* regs) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(regs[i])::"memory");
}
template <int N>
FT_INLINE void ft_mma_hold(::i32* regs) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(regs[i])::"memory");
}

// The same of N elements of 16 or 8 bits that are an operand: words of four bytes, as instructions take them.
template <int N, class T>
FT_INLINE void ft_mma_hold(T* regs) {
  constexpr int WORDS = N * sizeof(T) / 4;
#pragma unroll
  for (int i = 0; i < WORDS; ++i) {
    u32 word;
    memcpy(&word, regs + i * (4 / sizeof(T)), 4);
    asm volatile("" : "+r"(word)::"memory");
    memcpy(regs + i * (4 / sizeof(T)), &word, 4);
  }
}

// The first operands of an instruction in its text, and registers of an array as operands that it adds to.
#define FT_RESULTS_4 "%0, %1, %2, %3"
#define FT_RESULTS_8 FT_RESULTS_4 ", %4, %5, %6, %7"
#define FT_RESULTS_12 FT_RESULTS_8 ", %8, %9, %10, %11"
#define FT_RESULTS_16 FT_RESULTS_12 ", %12, %13, %14, %15"
#define FT_RESULTS_20 FT_RESULTS_16 ", %16, %17, %18, %19"
#define FT_RESULTS_24 FT_RESULTS_20 ", %20, %21, %22, %23"
#define FT_RESULTS_28 FT_RESULTS_24 ", %24, %25, %26, %27"
#define FT_RESULTS_32 FT_RESULTS_28 ", %28, %29, %30, %31"
#define FT_RESULTS_36 FT_RESULTS_32 ", %32, %33, %34, %35"
#define FT_RESULTS_40 FT_RESULTS_36 ", %36, %37, %38, %39"
#define FT_RESULTS_44 FT_RESULTS_40 ", %40, %41, %42, %43"
#define FT_RESULTS_48 FT_RESULTS_44 ", %44, %45, %46, %47"
#define FT_RESULTS_52 FT_RESULTS_48 ", %48, %49, %50, %51"
#define FT_RESULTS_56 FT_RESULTS_52 ", %52, %53, %54, %55"
#define FT_RESULTS_60 FT_RESULTS_56 ", %56, %57, %58, %59"
#define FT_RESULTS_64 FT_RESULTS_60 ", %60, %61, %62, %63"
#define FT_RESULTS_68 FT_RESULTS_64 ", %64, %65, %66, %67"
#define FT_RESULTS_72 FT_RESULTS_68 ", %68, %69, %70, %71"
#define FT_RESULTS_76 FT_RESULTS_72 ", %72, %73, %74, %75"
#define FT_RESULTS_80 FT_RESULTS_76 ", %76, %77, %78, %79"
#define FT_RESULTS_84 FT_RESULTS_80 ", %80, %81, %82, %83"
#define FT_RESULTS_88 FT_RESULTS_84 ", %84, %85, %86, %87"
#define FT_RESULTS_92 FT_RESULTS_88 ", %88, %89, %90, %91"
#define FT_RESULTS_96 FT_RESULTS_92 ", %92, %93, %94, %95"
#define FT_RESULTS_100 FT_RESULTS_96 ", %96, %97, %98, %99"
#define FT_RESULTS_104 FT_RESULTS_100 ", %100, %101, %102, %103"
#define FT_RESULTS_108 FT_RESULTS_104 ", %104, %105, %106, %107"
#define FT_RESULTS_112 FT_RESULTS_108 ", %108, %109, %110, %111"
#define FT_RESULTS_116 FT_RESULTS_112 ", %112, %113, %114, %115"
#define FT_RESULTS_120 FT_RESULTS_116 ", %116, %117, %118, %119"
#define FT_RESULTS_124 FT_RESULTS_120 ", %120, %121, %122, %123"
#define FT_RESULTS_128 FT_RESULTS_124 ", %124, %125, %126, %127"
#define FT_ADDED_4(C, I) C (d[I]), C (d[(I) + 1]), C (d[(I) + 2]), C (d[(I) + 3])
#define FT_ADDED_8(C, I) FT_ADDED_4(C, I), FT_ADDED_4(C, I + 4)
#define FT_ADDED_12(C, I) FT_ADDED_8(C, I), FT_ADDED_4(C, I + 8)
#define FT_ADDED_16(C, I) FT_ADDED_12(C, I), FT_ADDED_4(C, I + 12)
#define FT_ADDED_20(C, I) FT_ADDED_16(C, I), FT_ADDED_4(C, I + 16)
#define FT_ADDED_24(C, I) FT_ADDED_20(C, I), FT_ADDED_4(C, I + 20)
#define FT_ADDED_28(C, I) FT_ADDED_24(C, I), FT_ADDED_4(C, I + 24)
#define FT_ADDED_32(C, I) FT_ADDED_28(C, I), FT_ADDED_4(C, I + 28)
#define FT_ADDED_36(C, I) FT_ADDED_32(C, I), FT_ADDED_4(C, I + 32)
#define FT_ADDED_40(C, I) FT_ADDED_36(C, I), FT_ADDED_4(C, I + 36)
#define FT_ADDED_44(C, I) FT_ADDED_40(C, I), FT_ADDED_4(C, I + 40)
#define FT_ADDED_48(C, I) FT_ADDED_44(C, I), FT_ADDED_4(C, I + 44)
#define FT_ADDED_52(C, I) FT_ADDED_48(C, I), FT_ADDED_4(C, I + 48)
#define FT_ADDED_56(C, I) FT_ADDED_52(C, I), FT_ADDED_4(C, I + 52)
#define FT_ADDED_60(C, I) FT_ADDED_56(C, I), FT_ADDED_4(C, I + 56)
#define FT_ADDED_64(C, I) FT_ADDED_60(C, I), FT_ADDED_4(C, I + 60)
#define FT_ADDED_68(C, I) FT_ADDED_64(C, I), FT_ADDED_4(C, I + 64)
#define FT_ADDED_72(C, I) FT_ADDED_68(C, I), FT_ADDED_4(C, I + 68)
#define FT_ADDED_76(C, I) FT_ADDED_72(C, I), FT_ADDED_4(C, I + 72)
#define FT_ADDED_80(C, I) FT_ADDED_76(C, I), FT_ADDED_4(C, I + 76)
#define FT_ADDED_84(C, I) FT_ADDED_80(C, I), FT_ADDED_4(C, I + 80)
#define FT_ADDED_88(C, I) FT_ADDED_84(C, I), FT_ADDED_4(C, I + 84)
#define FT_ADDED_92(C, I) FT_ADDED_88(C, I), FT_ADDED_4(C, I + 88)
#define FT_ADDED_96(C, I) FT_ADDED_92(C, I), FT_ADDED_4(C, I + 92)
#define FT_ADDED_100(C, I) FT_ADDED_96(C, I), FT_ADDED_4(C, I + 96)
#define FT_ADDED_104(C, I) FT_ADDED_100(C, I), FT_ADDED_4(C, I + 100)
#define FT_ADDED_108(C, I) FT_ADDED_104(C, I), FT_ADDED_4(C, I + 104)
#define FT_ADDED_112(C, I) FT_ADDED_108(C, I), FT_ADDED_4(C, I + 108)
#define FT_ADDED_116(C, I) FT_ADDED_112(C, I), FT_ADDED_4(C, I + 112)
#define FT_ADDED_120(C, I) FT_ADDED_116(C, I), FT_ADDED_4(C, I + 116)
#define FT_ADDED_124(C, I) FT_ADDED_120(C, I), FT_ADDED_4(C, I + 120)
#define FT_ADDED_128(C, I) FT_ADDED_124(C, I), FT_ADDED_4(C, I + 124)

// d = a @ b + d, or a @ b where `adds` is 0: N columns, COUNT registers of each thread; A to TB are the places of the
// operands behind them. Of 16 bits, whose rows may lie side by side, where TRANSPOSED_A and TRANSPOSED_B are 1.
#define FT_WGMMA_HALVES(NAME, SHAPE, TYPES, COUNT, A, B, ADDS, TA, TB)                                                 \
  template <int TRANSPOSED_A, int TRANSPOSED_B>                                                                        \
  FT_INLINE void ft_wgmma_##NAME(float* d, u64 a, u64 b, u32 adds) {                                                   \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        "  .reg .pred adds;\n"                                                                                         \
        "  setp.ne.b32 adds, %" #ADDS ", 0;\n"                                                                         \
        "  wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" FT_RESULTS_##COUNT "}, %" #A ", %" #B                   \
        ", adds, 1, 1, %" #TA ", %" #TB ";\n"                                                                          \
        "}"                                                                                                            \
        : FT_ADDED_##COUNT("+f", 0)                                                                                    \
        : "l"(a), "l"(b), "r"(adds), "n"(TRANSPOSED_A), "n"(TRANSPOSED_B));                                            \
  }

// The same of floats of 8 bits, and of those of 32, of which tensor cores read the upper 19 (tf32).
#define FT_WGMMA_FLOATS(NAME, SHAPE, TYPES, COUNT, A, B, ADDS)                                                         \
  FT_INLINE void ft_wgmma_##NAME(float* d, u64 a, u64 b, u32 adds) {                                                   \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        "  .reg .pred adds;\n"                                                                                         \
        "  setp.ne.b32 adds, %" #ADDS ", 0;\n"                                                                         \
        "  wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" FT_RESULTS_##COUNT "}, %" #A ", %" #B ", adds, 1, 1;\n" \
        "}"                                                                                                            \
        : FT_ADDED_##COUNT("+f", 0)                                                                                    \
        : "l"(a), "l"(b), "r"(adds));                                                                                  \
  }

// And of integers of 8 bits, whose sums wrap.
#define FT_WGMMA_INTEGERS(NAME, SHAPE, TYPES, COUNT, A, B, ADDS)                                                       \
  FT_INLINE void ft_wgmma_##NAME(::i32* d, u64 a, u64 b, u32 adds) {                                                   \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        "  .reg .pred adds;\n"                                                                                         \
        "  setp.ne.b32 adds, %" #ADDS ", 0;\n"                                                                         \
        "  wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" FT_RESULTS_##COUNT "}, %" #A ", %" #B ", adds;\n"       \
        "}"                                                                                                            \
        : FT_ADDED_##COUNT("+r", 0)                                                                                    \
        : "l"(a), "l"(b), "r"(adds));                                                                                  \
  }

// d = a @ b + d, or a @ b where `adds` is 0, of rows that the threads hold: four words of each.
#define FT_WGMMA_HALVES_HELD(NAME, SHAPE, TYPES, COUNT, A, A1, A2, A3, B, ADDS, TB)                                    \
  template <int TRANSPOSED_B>                                                                                          \
  FT_INLINE void ft_wgmma_##NAME(float* d, const void* left, u64 b, u32 adds) {                                        \
    u32 a[4];                                                                                                          \
    memcpy(a, left, 16);                                                                                               \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        "  .reg .pred adds;\n"                                                                                         \
        "  setp.ne.b32 adds, %" #ADDS ", 0;\n"                                                                         \
        "  wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" FT_RESULTS_##COUNT "}, {%" #A ", %" #A1 ", %" #A2       \
        ", %" #A3 "}, %" #B ", adds, 1, 1, %" #TB ";\n"                                                                \
        "}"                                                                                                            \
        : FT_ADDED_##COUNT("+f", 0)                                                                                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "n"(TRANSPOSED_B));                           \
  }

// The same of floats of 8 bits, and of tf32.
#define FT_WGMMA_FLOATS_HELD(NAME, SHAPE, TYPES, COUNT, A, A1, A2, A3, B, ADDS)                                        \
  FT_INLINE void ft_wgmma_##NAME(float* d, const void* left, u64 b, u32 adds) {                                        \
    u32 a[4];                                                                                                          \
    memcpy(a, left, 16);                                                                                               \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        "  .reg .pred adds;\n"                                                                                         \
        "  setp.ne.b32 adds, %" #ADDS ", 0;\n"                                                                         \
        "  wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" FT_RESULTS_##COUNT "}, {%" #A ", %" #A1 ", %" #A2       \
        ", %" #A3 "}, %" #B ", adds, 1, 1;\n"                                                                          \
        "}"                                                                                                            \
        : FT_ADDED_##COUNT("+f", 0)                                                                                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));                                              \
  }

// And of integers of 8 bits, whose sums wrap.
#define FT_WGMMA_INTEGERS_HELD(NAME, SHAPE, TYPES, COUNT, A, A1, A2, A3, B, ADDS)                                      \
  FT_INLINE void ft_wgmma_##NAME(::i32* d, const void* left, u64 b, u32 adds) {                                        \
    u32 a[4];                                                                                                          \
    memcpy(a, left, 16);                                                                                               \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        "  .reg .pred adds;\n"                                                                                         \
        "  setp.ne.b32 adds, %" #ADDS ", 0;\n"                                                                         \
        "  wgmma.mma_async.sync.aligned." SHAPE "." TYPES " {" FT_RESULTS_##COUNT "}, {%" #A ", %" #A1 ", %" #A2       \
        ", %" #A3 "}, %" #B ", adds;\n"                                                                                \
        "}"                                                                                                            \
        : FT_ADDED_##COUNT("+r", 0)                                                                                    \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));                                              \
  }
