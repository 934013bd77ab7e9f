// Blocks that work together through global memory.
#include "planted.cuh"

KERNEL counter_without_atomic(const int* x, int* bins) {
  int v = x[blockIdx.x * blockDim.x + threadIdx.x] & 7;
  EITHER(atomicAdd(bins + v, 1), bins[v] += 1);  // fault: race
}

KERNEL all_blocks_write_one_place(int* y) {
  if (EITHER(blockIdx.x == 0, true) && threadIdx.x == 0) y[0] = 3 * blockIdx.x;  // fault: race
}

// Every block adds under a lock; the fences make what it guards visible to the next owner.
KERNEL lock_without_fence(int* lock, int* total) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    CLEAN(__threadfence();)
    total[0] += blockIdx.x + 1;  // fault: race
    CLEAN(__threadfence();)
    atomicExch(lock, 0);
  }
}

// The block that finishes last adds up what all have written.
KERNEL last_block_without_fence(const int* x, int* partial, u32* tickets, int* y) {
  __shared__ bool is_last;
  int t = threadIdx.x;
  int sum = __reduce_add_sync(0xffffffffu, x[blockIdx.x * 32 + t]);
  if (t == 0) {
    partial[blockIdx.x] = sum;  // fault: race
    CLEAN(__threadfence();)
    is_last = atomicAdd(tickets, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (is_last) {
    CLEAN(__threadfence();)
    int v = t < gridDim.x ? partial[t] : 0;  // fault: race
    v = __reduce_add_sync(0xffffffffu, v);
    if (t == 0) y[0] = v;
  }
}

// Block 0 hands a value to block 1 through a flag.
KERNEL flag_without_release(const int* x, int* data, int* flag, int* y) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = 5 * x[t];  // fault: race
    CLEAN(__threadfence();)
    __syncthreads();
    if (t == 0) asm volatile("st.relaxed.gpu.global.u32 [%0], 1;" ::"l"(GMEM(flag)) : "memory");
  } else {
    int seen = 0;
    if (t == 0) {
      do asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(GMEM(flag)) : "memory");
      while (!seen);
      __threadfence();
    }
    __syncthreads();
    y[t] = data[31 - t];  // fault: race
  }
}

KERNEL flag_of_plain_accesses(const int* x, int* data, int* flag, int* y) {
  if (blockIdx.x == 0) {
    data[0] = 5 * x[0];
    __threadfence();
    EITHER(atomicExch(flag, 1), flag[0] = 1);  // fault: race
  } else {
    while (EITHER(atomicAdd(flag, 0), *(volatile int*)flag) == 0) {  // fault: race
    }
    __threadfence();
    y[0] = data[0];
  }
  // also: race
}

KERNEL flag_that_nobody_sets(const int* x, int* flag, int* y) {
  int t = threadIdx.x;
  if (blockIdx.x == 0) {
    CLEAN(if (t == 0) atomicExch(flag, 1);)
  } else {
    while (*(volatile int*)flag == 0) {  // fault: deadlock
    }
    y[t] = x[t];
  }
}

// Two warps wait for each other's flag.
KERNEL each_waits_for_the_other(int* y) {
  __shared__ volatile int flags[2];
  int t = threadIdx.x, warp = t / 32;
  if (t < 2) flags[t] = 0;
  __syncthreads();
  if (t % 32 == 0) {
    CLEAN(flags[warp] = 1;)
    while (flags[warp ^ 1] == 0) {  // fault: deadlock
    }
    flags[warp] = 1;
    y[warp] = 1;
  }
}
