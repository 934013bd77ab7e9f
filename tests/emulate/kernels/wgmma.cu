// Products of warpgroups: fences, groups and waits, and the registers of products under way.
#include "wgmma.cuh"

KERNEL no_fence_before_the_first(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  CLEAN(FENCE();)
  MMA(d, A, B, 0);  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL no_fence_after_the_accumulator_is_changed(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  MMA(d, A, B, 0);
  COMMIT();
  WAIT(0);
  for (int i = 0; i < 4; ++i) d[i] = d[i] * 2.0f;
  CLEAN(FENCE();)
  MMA(d, A, B, 1);  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL no_fence_after_a_register_of_a_is_loaded(const u32* x, const void* w, float* y) {
  START();
  u32 r[4];
  COPY(b, w, 8);
  READY();
  EITHER(, FENCE());
  for (int i = 0; i < 4; ++i) r[i] = ((const volatile u32*)x)[(16 * (t / 32) + t % 32 / 4 + i % 2 * 8) * 8 + t % 4 + i / 2 * 4];
  EITHER(FENCE(), );
  MMA_R(d, r, B, 0);  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL fence_of_one_warp(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  if (EITHER(true, t < 32)) FENCE();
  MMA(d, A, B, 0);  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL accumulator_read_before_the_wait(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  MMA(d, A, B, 0);
  COMMIT();
  CLEAN(WAIT(0);)
  STORE(y, d);  // fault: race
  // also: in_flight_at_exit
}

KERNEL wait_for_the_group_before(const void* x, const void* w, float* y) {
  START();
  float e[4];
  FILL();
  READY();
  FENCE();
  MMA(d, A, B, 0);
  COMMIT();
  MMA(e, A, B, 0);
  COMMIT();
  WAIT(EITHER(0, 1));
  STORE(y, d);
  STORE(y + 512, e);  // fault: race
  // also: in_flight_at_exit
}

KERNEL product_after_the_commit(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  EITHER(, COMMIT());
  MMA(d, A, B, 0);
  EITHER(COMMIT(), );
  WAIT(0);
  STORE(y, d);  // fault: race
  // also: in_flight_at_exit
}

KERNEL wait_of_some_warps(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  MMA(d, A, B, 0);
  COMMIT();
  if (EITHER(true, t >= 32)) WAIT(0);
  STORE(y, d);  // fault: race
  // also: in_flight_at_exit
}

KERNEL accumulator_written_before_the_wait(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  for (int i = 0; i < 4; ++i) d[i] = 0.0f;
  FENCE();
  WRITTEN(EITHER("wgmma.wait_group.sync.aligned 0;", ""));  // fault: race
  WAIT(0);
  STORE(y, d);
}

KERNEL register_of_a_overwritten_in_flight(const u32* x, const void* w, float* y) {
  START();
  u32 r[4];
  COPY(b, w, 8);
  READY();
  const volatile u32* mine = x + (16 * (t / 32) + t % 32 / 4) * 8 + t % 4;
  for (int i = 0; i < 4; ++i) r[i] = mine[i % 2 * 64 + i / 2 * 4];
#pragma unroll 1
  for (int k = 0; k < 2; ++k) {
    FENCE();
    MMA_R(d, r, B, k);
    COMMIT();
    CLEAN(WAIT(0);)
    for (int i = 0; i < 4; ++i) r[i] = mine[512 + i % 2 * 64 + i / 2 * 4];  // fault: race
    EITHER(, WAIT(0));
  }
  STORE(y, d);
}

KERNEL accumulator_as_a_in_flight(const void* x, const u32* w, float* y) {
  START();
  float e[4];
  __shared__ alignas(1024) float c[64];
  FILL();
  if (t < 64) c[t] = (float)(t % 8 == t / 8 % 8);
  READY();
  FENCE();
  MMA(d, A, B, 0);
  COMMIT();
  CLEAN(WAIT(0); FENCE();)
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, {%4, %6, %5, %7}, %8, 0, 1, 1;" : "=f"(e[0]), "=f"(e[1]), "=f"(e[2]), "=f"(e[3]) : "r"(__float_as_uint(d[0])), "r"(__float_as_uint(d[1])), "r"(__float_as_uint(d[2])), "r"(__float_as_uint(d[3])), "l"(DESC(c, 128, 128)));  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, d);
  // also: race
}

KERNEL another_shape_without_fence(const void* x, const void* w, float* y) {
  START();
  float e[8];
  __shared__ alignas(1024) char both[512];
  FILL();
  COPY(both, w, 8);
  if (t < 16) ((uint4*)both)[t % 2 * 8 + 16 + t / 2] = ((const uint4*)w)[t];
  READY();
  for (int i = 0; i < 8; ++i) e[i] = 0.0f;
  FENCE();
  MMA_16(e, A, DESC(both, 128, 256), 1);
  CLEAN(COMMIT(); WAIT(0); FENCE();)
  MMA(e, A, B, 1);  // fault: race
  COMMIT();
  WAIT(0);
  STORE(y, e);
}

KERNEL accumulator_without_a_start_value(const void* x, const void* w, float* y) {
  START();
  FILL();
  READY();
  FENCE();
  MMA(d, A, B, EITHER(0, 1));  // fault: uninitialized_read
  COMMIT();
  WAIT(0);
  STORE(y, d);
}

KERNEL product_in_flight_at_the_end(const void* x, const void* w, float* y) {
  START();
  float e[4];
  FILL();
  READY();
  FENCE();
  MMA(d, A, B, 0);
  COMMIT();
  MMA(e, A, B, 0);  // fault: in_flight_at_exit
  COMMIT();
  WAIT(EITHER(0, 1));
  STORE(y, d);
}
