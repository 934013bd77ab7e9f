// Products in tensor memory, asked for by one thread (PTX ISA, "tcgen05.mma"). sm_100a. They are there when a commit of that
// thread has arrived (ft_tmem_commit), in the order in which they were asked for where they add to one result.
#pragma once
#include "matrix_descriptor.cuh"
#include "mbarrier.cuh"

// The result at `d` = a @ b + itself, or a @ b where `adds` is 0. `form` is the instruction descriptor: types, which operands
// have their rows side by side, rows and columns.
#define FT_TENSOR_MMA(KIND)                                                                                            \
  FT_INLINE void ft_tensor_mma_##KIND(u32 d, u64 a, u64 b, u32 form, u32 adds) {                                       \
    asm volatile(                                                                                                      \
        "{\n"                                                                                                          \
        "  .reg .pred adds;\n"                                                                                         \
        "  setp.ne.b32 adds, %4, 0;\n"                                                                                 \
        "  tcgen05.mma.cta_group::1.kind::" #KIND " [%0], %1, %2, %3, adds;\n"                                         \
        "}" ::"r"(d),                                                                                                  \
        "l"(a), "l"(b), "r"(form), "r"(adds)                                                                           \
        : "memory");                                                                                                   \
  }

FT_TENSOR_MMA(f16)
FT_TENSOR_MMA(f8f6f4)
FT_TENSOR_MMA(i8)
FT_TENSOR_MMA(tf32)

#undef FT_TENSOR_MMA
