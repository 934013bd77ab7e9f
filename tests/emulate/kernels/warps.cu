// Warp-wide instructions whose lanes do not all come.
#include "planted.cuh"

KERNEL shuffle_with_lanes_missing(const int* x, int* y) {
  int t = threadIdx.x, v = x[t];
  if (t < 24) v += __shfl_xor_sync(EITHER(0x00ffffffu, 0xffffffffu), v, 1);  // fault: divergent_collective
  y[t] = v;
}

KERNEL vote_with_lanes_missing(const int* x, int* y) {
  int t = threadIdx.x, v = x[t];
  if (v % 3 == 0) {
    v = __popc(__ballot_sync(EITHER(__activemask(), 0xffffffffu), v > 5));  // fault: divergent_collective
  }
  y[t] = v;
}

KERNEL redux_with_lanes_missing(const int* x, int* y) {
  int t = threadIdx.x, v = x[t];
  if (t >= 8) v = __reduce_add_sync(EITHER(0xffffff00u, 0xffffffffu), v);  // fault: divergent_collective
  y[t] = v;
}

// The lanes that execute are more than the mask names.
KERNEL shuffle_outside_of_its_mask(const int* x, int* y) {
  int t = threadIdx.x, v = x[t];
  v += __shfl_down_sync(EITHER(0xffffffffu, 0x0000ffffu), v, 1, 16);  // fault: divergent_collective or invalid_operand
  y[t] = v;
}

// Half a warp takes one shuffle, the other half another one, both for the whole warp.
KERNEL shuffle_in_both_branches(const int* x, int* y) {
  int t = threadIdx.x, v = x[t];
  if (t < 16) {
    asm volatile("shfl.sync.bfly.b32 %0, %0, 3, 31, %1;" : "+r"(v) : "r"(EITHER(0x0000ffffu, 0xffffffffu)));  // fault: divergent_collective
    v += 7;
  } else {
    asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 31, %1;" : "+r"(v) : "r"(EITHER(0xffff0000u, 0xffffffffu)));  // fault: divergent_collective
  }
  y[t] = v;
}
