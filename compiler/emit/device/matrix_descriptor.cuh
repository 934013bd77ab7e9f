// Descriptors of matrices in shared memory (PTX ISA, wgmma, "Matrix Descriptor Format"; tcgen05, "Shared memory descriptor").
#pragma once
#include "types.cuh"

// An address of shared memory as descriptors have it, of 18 bits. In a cluster the block's rank stands above (bit 24 on an
// H100): among the bits of a descriptor it would move what is read.
FT_INLINE u32 ft_matrix_address(u32 smem_addr) { return smem_addr & 0x3ffffu; }

// The descriptor of a matrix in shared memory: SHAPE has its offsets and its swizzle, in their bits; the address counts in
// 16 bytes.
template <u64 SHAPE>
FT_INLINE u64 ft_matrix(u32 smem_addr) {
  return SHAPE | static_cast<u64>(smem_addr >> 4);
}
