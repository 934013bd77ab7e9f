// Barriers of the block and of the warp: missing, of the wrong size, in divergent code.
#include "planted.cuh"

// A value read before its writer is known to be done.
KERNEL read_after_write(const int* x, int* y) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = x[t];  // fault: race
  CLEAN(__syncthreads();)
  y[t] = s[127 - t];  // fault: race
}

// The buffer is written again while others still read it.
KERNEL write_after_read(const int* x, int* y) {
  __shared__ int s[128];
  int t = threadIdx.x;
  for (int k = 0; k < 3; ++k) {
    s[t] = x[128 * k + t];  // fault: race
    __syncthreads();
    y[128 * k + t] = s[127 - t];  // fault: race
    CLEAN(__syncthreads();)
  }
}

// Two warps write one place, then it is read.
KERNEL write_after_write(int* y) {
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t < 32) s[t] = t;  // fault: race
  CLEAN(__syncthreads();)
  if (t >= 32) s[t - 32] = 3 * t;  // fault: race
  __syncthreads();
  y[t] = s[t & 31];
}

// A tree whose last steps trust that a warp runs in lockstep.
KERNEL tree_in_lockstep(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  if (t < 32) {
    int sum = s[t] + s[t + 32];
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
      s[t] = sum;  // fault: race
      CLEAN(__syncwarp();)
      sum += s[(t + step) & 31];  // fault: race
      CLEAN(__syncwarp();)
    }
    if (t == 0) y[0] = sum;
  }
}

// Neighbours of a warp exchange through shared memory.
KERNEL exchange_in_warp(const int* x, int* y) {
  __shared__ int s[32];
  int t = threadIdx.x;
  s[t] = x[t];  // fault: race
  CLEAN(__syncwarp();)
  y[t] = s[t ^ 1];  // fault: race
}

// __syncwarp names half of the lanes that exchange.
KERNEL syncwarp_of_half(const int* x, int* y) {
  __shared__ int s[32];
  int t = threadIdx.x;
  s[t] = x[t];  // fault: race
  if (t < 16) __syncwarp(EITHER(0xffffffffu, 0x0000ffffu));
  else __syncwarp(EITHER(0xffffffffu, 0xffff0000u));
  y[t] = s[31 - t];  // fault: race
}

// One warp produces for two others over a named barrier; the count says one warp too many.
KERNEL named_barrier_of_too_many(const int* x, int* y) {
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t < 32) {
    s[t] = x[t];
    asm volatile("barrier.cta.arrive 1, %0;" ::"n"(EITHER(96, 128)) : "memory");
  } else {
    asm volatile("barrier.cta.sync 1, %0;" ::"n"(EITHER(96, 128)) : "memory");  // fault: deadlock
    y[t - 32] = s[t & 31];
  }
}

// The producer uses another name than the consumers.
KERNEL named_barrier_of_another_name(const int* x, int* y) {
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t < 32) {
    s[t] = x[t];
    asm volatile("bar.arrive %0, 64;" ::"n"(EITHER(2, 3)) : "memory");
  } else {
    asm volatile("bar.sync 2, 64;" ::: "memory");  // fault: deadlock
    y[t - 32] = s[t - 32];
  }
}

// Two groups share one barrier name: each should wait for its own warps only.
KERNEL named_barrier_of_one_warp(const int* x, int* y) {
  __shared__ int s[128];
  int t = threadIdx.x, half = t / 64;
  s[t] = x[t];  // fault: race
  asm volatile("bar.sync %0, %1;" ::"r"(1 + EITHER(half, t / 32)), "n"(EITHER(64, 32)) : "memory");
  y[t] = s[half * 64 + 63 - t % 64];  // fault: race
}

// Half of each warp goes through a barrier of its own.
KERNEL barrier_in_branch(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  if (EITHER(true, t % 32 < 16)) {
    __syncthreads();  // fault: divergent_collective
    s[t] += s[t] & 1;
  }
  __syncthreads();
  y[t] = s[63 - t];
}

// Threads of a loop make different numbers of turns through its barrier.
KERNEL barrier_in_uneven_loop(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x;
  int turns = EITHER(4, 1 + t % 4);
  int sum = 0;
#pragma unroll 1
  for (int k = 0; k < turns; ++k) {
    s[t] = x[t] + k;
    __syncthreads();  // fault: divergent_collective
    sum += s[t ^ 32];
    __syncthreads();  // fault: divergent_collective
  }
  s[t] = sum;
  __syncthreads();  // fault: divergent_collective
  y[t] = s[63 - t];
}
