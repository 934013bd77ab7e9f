// The one thread of the block that issues bulk copies and speaks for the block to its barriers.
#pragma once
#include "types.cuh"

FT_INLINE bool ft_is_elected() {
  return (threadIdx.x | threadIdx.y | threadIdx.z) == 0u;
}
