// Products with the accumulator in tensor memory: who issues them, descriptors, places.
#include "tensor_products.cuh"

KERNEL issued_by_a_warp(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t < EITHER(1, 32)) MMA(base, A, B, FORM(128, 16), 0);  // fault: race
  if (t == 0) COMMIT(bar);
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
}

KERNEL issued_by_two_warps(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0 || t == EITHER(0, 32)) {
    MMA(base, A, B, FORM(128, 16), 0);  // fault: race
    if (t == 0) COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: in_flight_at_exit race
}

KERNEL columns_of_an_odd_number(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, EITHER(16, 24)), 0);  // fault: invalid_operand
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: uninitialized_read
}

KERNEL types_of_another_kind(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16) | EITHER(0, 2 << 7 | 2 << 10), 0);  // fault: invalid_operand
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: uninitialized_read
}

KERNEL descriptor_of_a_warpgroup(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A & ~EITHER(0ull, 1ull << 46), B, FORM(128, 16), 0);  // fault: invalid_operand
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: uninitialized_read
}

KERNEL accumulator_past_the_allocation(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base + EITHER(0, 24), A, B, FORM(128, 16), 0);  // fault: tmem_out_of_allocation
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: uninitialized_read
}

KERNEL accumulator_at_another_lane(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base + EITHER(0, 16 << 16), A, B, FORM(128, 16), 0);  // fault: tmem_wrong_lanes
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: uninitialized_read
}

KERNEL accumulator_without_a_start_value(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), EITHER(0, 1));  // fault: uninitialized_read
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
}

KERNEL groups_of_blocks_mixed(const uint4* x, const uint4* w, u32* y) {
  START(32);  // fault: invalid_operand
  FILL();
  READY();
  if (t == 0) {
    if (EITHER(true, blockIdx.x == 0)) MMA(base, A, B, FORM(128, 16), 0);
    else { EITHER(, MMA_2(base, A, B, FORM(128, 16), 0);) }
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: invalid_operand
}

KERNEL a_at_other_lanes_than_the_accumulator(const uint4* x, const uint4* w, u32* y) {
  START(64);
  if (t < 32) b[t % 2 * 16 + t / 2] = w[t];
  __syncthreads();
  STORE_A();
  WAIT_ST();
  READY();
  if (t == 0) {
    MMA_T(base, base + 32, B, FORM(128, 16), 0);
    MMA_T(base + 16, base + 32 + EITHER(0, 16 << 16), B, FORM(64, 16), 0);  // fault: tmem_wrong_lanes
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(64);
}
