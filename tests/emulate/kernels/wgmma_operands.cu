// Products of warpgroups: operands in shared memory, descriptors, and who executes them.
#include "wgmma.cuh"

KERNEL stage_overwritten_in_flight(const uint4* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  MMA(d, A, B, 0);
  COMMIT();
  CLEAN(WAIT(0); __syncthreads();)
  COPY(a, x + 128, 64);  // fault: race
  EITHER(, WAIT(0));
  READY();
  FENCE();
  MMA(d, A, B, 1);
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL stage_refilled_by_a_copy_in_flight(const char* x, const void* w, float* y) {
  START();
  __shared__ u64 bar;
  COPY(b, w, 8);
  if (t == 0) {
    MBAR_INIT(bar, 1);
    MBAR_FENCE();
  }
  READY();
#pragma unroll 1
  for (int k = 0; k < 2; ++k) {
    if (t == 0) {
      MBAR_EXPECT(bar, 2048);
      BULK_LOAD(a, x + 2048 * k, 2048, bar);  // fault: race
    }
    MBAR_WAIT(bar, k);
    FENCE();
    MMA(d, DESC(a, 128, 256), B, k);
    COMMIT();
    CLEAN(WAIT(0);)
    __syncthreads();
  }
  WAIT(0);
  STORE(y, d);
}

KERNEL copy_awaited_by_one_warp(const char* x, const void* w, float* y) {
  START();
  __shared__ u64 bar;
  COPY(b, w, 8);
  if (t == 0) {
    MBAR_INIT(bar, 1);
    MBAR_FENCE();
  }
  READY();
  if (t == 0) {
    MBAR_EXPECT(bar, 2048);
    BULK_LOAD(a, x, 2048, bar);
  }
  if (EITHER(true, t < 32)) MBAR_WAIT(bar, 0);
  FENCE();
  MMA(d, DESC(a, 128, 256), B, 0);  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, d);
  // also: uninitialized_read
}

KERNEL operand_without_proxy_fence(const void* x, const void* w, float* y) {
  START();
  FILL();
  CLEAN(FENCE_ASYNC();)
  __syncthreads();
  FENCE();
  MMA(d, A, B, 0);  // fault: proxy_race
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL operand_without_barrier(const void* x, const void* w, float* y) {
  START();
  FILL();
  FENCE_ASYNC();
  CLEAN(__syncthreads();)
  FENCE();
  MMA(d, A, B, 0);  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL operand_never_written(const void* x, const void* w, float* y) {
  START();
  CLEAN(COPY(b, w, 8);)
  COPY(a, x, 64);
  READY();
  FENCE();
  MMA(d, A, B, 0);  // fault: uninitialized_read
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL three_warps_of_four(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  for (int i = 0; i < 4; ++i) d[i] = 0.0f;
  if (EITHER(true, t < 96)) {
    MMA(d, A, B, 0);  // fault: divergent_collective
    COMMIT();
    WAIT(0);
  }
  __syncthreads();
  STORE(y, d);
}

KERNEL some_threads_of_a_warp(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  for (int i = 0; i < 4; ++i) d[i] = 0.0f;
  if (EITHER(true, t % 32 < 31)) {
    MMA(d, A, B, 0);  // fault: divergent_collective
    COMMIT();
    WAIT(0);
  }
  __syncthreads();
  STORE(y, d);
}

KERNEL a_warp_that_has_left(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  EITHER(, if (t >= 96) return);
  MMA(d, A, B, 0);  // fault: divergent_collective
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL descriptor_of_the_warp(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  MMA(d, EITHER(A, A + t / 32 * 16), B, 0);  // fault: invalid_operand
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL predicate_of_the_warp(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  for (int i = 0; i < 4; ++i) d[i] = 0.0f;
  FENCE();
  MMA(d, A, B, EITHER(1, t < 64));  // fault: invalid_operand
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL address_not_shifted(const void* x, const void* w, float* y) {
  extern __shared__ __align__(1024) char far[];
  START();
  FILL();
  COPY(far + 16384, x, 64);
  READY();
  FENCE();
  MMA(d, EITHER(DESC(far + 16384, 1024, 128), (u64)SMEM(far + 16384) | 64ull << 16 | 8ull << 32), B, 0);  // fault: invalid_operand
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL stage_off_the_pattern(const void* x, const void* w, float* y) {
  __shared__ alignas(1024) uint4 s[584];
  START();
  COPY(b, w, 8);
  uint4* stage = s + EITHER(0, 8);
  for (int i = t; i < 512; i += 128) stage[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  stage[8 * (t / 2) + (t % 2 ^ t / 2 % 8)] = ((const uint4*)x)[t];
  READY();
  FENCE();
  MMA(d, SWIZZLED(stage), B, 0);  // fault: invalid_operand
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL operand_past_shared_memory(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  MMA(d, DESC(a, 1024, EITHER(128, 65536)), B, 0);  // fault: out_of_bounds
  COMMIT();
  WAIT(0);
  STORE(y, d);
}
