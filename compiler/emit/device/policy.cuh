// L2 eviction policies for `.L2::cache_hint` (PTX ISA, "createpolicy"). A hint changes speed, never values.
#pragma once
#include "types.cuh"

// For data that is touched once: it leaves L2 before anything else does.
FT_INLINE u64 ft_policy_evict_first() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

// For data that every block reads again, such as a broadcast operand.
FT_INLINE u64 ft_policy_evict_last() {
  u64 policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
