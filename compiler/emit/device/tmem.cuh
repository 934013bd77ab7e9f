// Tensor memory: allocation, and copies to and from the registers of a warp (PTX ISA, "tcgen05.alloc", "tcgen05.ld",
// "tcgen05.st", "tcgen05.wait", "tcgen05.fence"). sm_100a. All threads of a warp come to each of them together, with one
// address: its lane in bits 31:16, its column of 4 bytes in bits 15:0.
#pragma once
#include "shared.cuh"

// `columns` (a power of two from 32 to 512) for the block, once they are free; their address goes to shared memory.
FT_INLINE void ft_tmem_allocate(u32 smem_addr, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(smem_addr), "r"(columns)
               : "memory");
}

// The block allocates no more.
FT_INLINE void ft_tmem_relinquish() {
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}

FT_INLINE void ft_tmem_deallocate(u32 tmem_addr, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(tmem_addr), "r"(columns) : "memory");
}

// What the allocation wrote.
FT_INLINE u32 ft_tmem_address(u32 smem_addr) {
  u32 tmem_addr;
  ft_load_shared<4>(&tmem_addr, smem_addr);
  return tmem_addr;
}

// All loads of the warp have come to their registers. Their uses have to be kept behind it (ft_opaque).
FT_INLINE void ft_tmem_wait_loads() {
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

FT_INLINE void ft_tmem_wait_stores() {
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

FT_INLINE void ft_tmem_fence_before_sync() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

FT_INLINE void ft_tmem_fence_after_sync() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// The first operands of an instruction in its text, and words of an array as operands.
#define FT_PLACES_1 "%0"
#define FT_PLACES_2 FT_PLACES_1 ", %1"
#define FT_PLACES_4 FT_PLACES_2 ", %2, %3"
#define FT_PLACES_8 FT_PLACES_4 ", %4, %5, %6, %7"
#define FT_PLACES_16 FT_PLACES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FT_PLACES_32 FT_PLACES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FT_PLACES_64 FT_PLACES_32                                                                                      \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"                                   \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FT_PLACES_128 FT_PLACES_64                                                                                     \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"                                   \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"                                   \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"                       \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FT_WORDS_1(USE, I) USE(I)
#define FT_WORDS_2(USE, I) FT_WORDS_1(USE, I), FT_WORDS_1(USE, I + 1)
#define FT_WORDS_4(USE, I) FT_WORDS_2(USE, I), FT_WORDS_2(USE, I + 2)
#define FT_WORDS_8(USE, I) FT_WORDS_4(USE, I), FT_WORDS_4(USE, I + 4)
#define FT_WORDS_16(USE, I) FT_WORDS_8(USE, I), FT_WORDS_8(USE, I + 8)
#define FT_WORDS_32(USE, I) FT_WORDS_16(USE, I), FT_WORDS_16(USE, I + 16)
#define FT_WORDS_64(USE, I) FT_WORDS_32(USE, I), FT_WORDS_32(USE, I + 32)
#define FT_WORDS_128(USE, I) FT_WORDS_64(USE, I), FT_WORDS_64(USE, I + 64)
#define FT_LOADED(I) "=r"(word[I])
#define FT_STORED(I) "r"(word[I])

// SHAPE repeated NUM times: COUNT registers of each thread, in the order of the instruction.
#define FT_TMEM_COPIES(SHAPE, NUM, COUNT)                                                                              \
  FT_INLINE void ft_tmem_load_##SHAPE##_x##NUM(void* dst_regs, u32 tmem_addr) {                                        \
    u32 word[COUNT];                                                                                                   \
    asm volatile("tcgen05.ld.sync.aligned." #SHAPE ".x" #NUM ".b32 {" FT_PLACES_##COUNT "}, [%" #COUNT "];"            \
                 : FT_WORDS_##COUNT(FT_LOADED, 0)                                                                      \
                 : "r"(tmem_addr)                                                                                      \
                 : "memory");                                                                                          \
    memcpy(dst_regs, word, 4 * COUNT);                                                                                 \
  }                                                                                                                    \
  FT_INLINE void ft_tmem_store_##SHAPE##_x##NUM(u32 tmem_addr, const void* src_regs) {                                 \
    u32 word[COUNT];                                                                                                   \
    memcpy(word, src_regs, 4 * COUNT);                                                                                 \
    asm volatile("tcgen05.st.sync.aligned." #SHAPE ".x" #NUM ".b32 [%" #COUNT "], {" FT_PLACES_##COUNT "};" ::         \
                     FT_WORDS_##COUNT(FT_STORED, 0),                                                                   \
                 "r"(tmem_addr)                                                                                        \
                 : "memory");                                                                                          \
  }

// The same of a shape of two halves, HALF_OFFSET columns apart; operand NEXT is the one after the address.
#define FT_TMEM_HALVES(SHAPE, NUM, COUNT, NEXT)                                                                        \
  template <int HALF_OFFSET>                                                                                           \
  FT_INLINE void ft_tmem_load_##SHAPE##_x##NUM(void* dst_regs, u32 tmem_addr) {                                        \
    u32 word[COUNT];                                                                                                   \
    asm volatile("tcgen05.ld.sync.aligned." #SHAPE ".x" #NUM ".b32 {" FT_PLACES_##COUNT "}, [%" #COUNT "], %" #NEXT ";"\
                 : FT_WORDS_##COUNT(FT_LOADED, 0)                                                                      \
                 : "r"(tmem_addr), "n"(HALF_OFFSET)                                                                    \
                 : "memory");                                                                                          \
    memcpy(dst_regs, word, 4 * COUNT);                                                                                 \
  }                                                                                                                    \
  template <int HALF_OFFSET>                                                                                           \
  FT_INLINE void ft_tmem_store_##SHAPE##_x##NUM(u32 tmem_addr, const void* src_regs) {                                 \
    u32 word[COUNT];                                                                                                   \
    memcpy(word, src_regs, 4 * COUNT);                                                                                 \
    asm volatile("tcgen05.st.sync.aligned." #SHAPE ".x" #NUM ".b32 [%" #COUNT "], %" #NEXT ", {" FT_PLACES_##COUNT "};" ::\
                     FT_WORDS_##COUNT(FT_STORED, 0),                                                                   \
                 "r"(tmem_addr), "n"(HALF_OFFSET)                                                                      \
                 : "memory");                                                                                          \
  }

FT_TMEM_COPIES(32x32b, 1, 1)
FT_TMEM_COPIES(32x32b, 2, 2)
FT_TMEM_COPIES(32x32b, 4, 4)
FT_TMEM_COPIES(32x32b, 8, 8)
FT_TMEM_COPIES(32x32b, 16, 16)
FT_TMEM_COPIES(32x32b, 32, 32)
FT_TMEM_COPIES(32x32b, 64, 64)
FT_TMEM_COPIES(32x32b, 128, 128)

FT_TMEM_COPIES(16x64b, 1, 1)
FT_TMEM_COPIES(16x64b, 2, 2)
FT_TMEM_COPIES(16x64b, 4, 4)
FT_TMEM_COPIES(16x64b, 8, 8)
FT_TMEM_COPIES(16x64b, 16, 16)
FT_TMEM_COPIES(16x64b, 32, 32)
FT_TMEM_COPIES(16x64b, 64, 64)
FT_TMEM_COPIES(16x64b, 128, 128)

FT_TMEM_HALVES(16x32bx2, 1, 1, 2)
FT_TMEM_HALVES(16x32bx2, 2, 2, 3)
FT_TMEM_HALVES(16x32bx2, 4, 4, 5)
FT_TMEM_HALVES(16x32bx2, 8, 8, 9)
FT_TMEM_HALVES(16x32bx2, 16, 16, 17)
FT_TMEM_HALVES(16x32bx2, 32, 32, 33)
FT_TMEM_HALVES(16x32bx2, 64, 64, 65)
FT_TMEM_HALVES(16x32bx2, 128, 128, 129)

FT_TMEM_COPIES(16x128b, 1, 2)
FT_TMEM_COPIES(16x128b, 2, 4)
FT_TMEM_COPIES(16x128b, 4, 8)
FT_TMEM_COPIES(16x128b, 8, 16)
FT_TMEM_COPIES(16x128b, 16, 32)
FT_TMEM_COPIES(16x128b, 32, 64)
FT_TMEM_COPIES(16x128b, 64, 128)

FT_TMEM_COPIES(16x256b, 1, 4)
FT_TMEM_COPIES(16x256b, 2, 8)
FT_TMEM_COPIES(16x256b, 4, 16)
FT_TMEM_COPIES(16x256b, 8, 32)
FT_TMEM_COPIES(16x256b, 16, 64)
FT_TMEM_COPIES(16x256b, 32, 128)

#undef FT_TMEM_COPIES
#undef FT_TMEM_HALVES
#undef FT_LOADED
#undef FT_STORED
