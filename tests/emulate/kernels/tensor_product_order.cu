// Products with the accumulator in tensor memory: what orders them, their operands, and who takes the result.
#include "tensor_products.cuh"

KERNEL loaded_before_the_commit_arrived(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 0);
    COMMIT(bar);
  }
  CLEAN(MBAR_WAIT(bar, 0);)
  __syncthreads();
  AFTER();
  LD(v, MINE);  // fault: race
  WAIT_LD();
  OUT();
  MBAR_WAIT(bar, 0);
  END(32);
}

KERNEL loaded_without_a_fence(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 0);
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  CLEAN(AFTER();)
  LD(v, MINE);  // fault: race
  WAIT_LD();
  OUT();
  END(32);
}

KERNEL never_committed(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 0);
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  BEFORE();
  __syncthreads();
  AFTER();
  if (t == 0) {
    MMA(base + 16, A, B, FORM(128, 16), 0);  // fault: in_flight_at_exit
    CLEAN(COMMIT(bar);)
  }
  CLEAN(MBAR_WAIT(bar, 1);)
  END(32);
  // also: race
}

KERNEL stage_overwritten_in_flight(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 0);
    COMMIT(bar);
  }
  CLEAN(MBAR_WAIT(bar, 0);)
  if (t < 32) b[t % 2 * 16 + t / 2] = w[32 + t];  // fault: race
  EITHER(, MBAR_WAIT(bar, 0));
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 1);
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 1);
  AFTER();
  TAKE();
  END(32);
}

KERNEL stage_refilled_before_the_commit_arrived(const uint4* x, const uint4* w, u32* y) {
  START(32);
  __shared__ u64 full;
  for (int i = t; i < 256; i += 128) a[i % 2 * 128 + i / 2] = x[i];
  if (t == 0) MBAR_INIT(full, 1);
  READY();
  if (t == 0) {
    for (int i = 0; i < 2; ++i) {
      MBAR_EXPECT(full, 512);
      BULK_LOAD(b, w + 32 * i, 512, full);  // fault: race
      MBAR_WAIT(full, i);
      MMA(base, A, DESC(b, 128, 256), FORM(128, 16), i);
      COMMIT(mid);
      CLEAN(MBAR_WAIT(mid, i);)
    }
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
}

KERNEL operand_without_proxy_fence(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  CLEAN(FENCE_ASYNC();)
  BEFORE();
  __syncthreads();
  AFTER();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 0);  // fault: proxy_race
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
}

KERNEL operand_without_barrier(const uint4* x, const uint4* w, u32* y) {
  START(32);
  __syncthreads();
  FILL();
  FENCE_ASYNC();
  CLEAN(__syncthreads();)
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 0);  // fault: race
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
  // also: uninitialized_read
}

// The next product overwrites what warps load.

KERNEL accumulator_overwritten_while_it_is_loaded(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  for (int i = 0; i < 2; ++i) {
    if (t == 0) {
      MMA(base, A, B, FORM(128, 16), 0);  // fault: race
      COMMIT(bar);
    }
    MBAR_WAIT(bar, i);
    AFTER();
    TAKE();
    BEFORE();
    CLEAN(__syncthreads();)
    AFTER();
  }
  END(32);
  // also: race
}

KERNEL accumulator_overwritten_without_a_fence(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  for (int i = 0; i < 2; ++i) {
    if (t == 0) {
      MMA(base, A, B, FORM(128, 16), 0);  // fault: race
      COMMIT(bar);
    }
    MBAR_WAIT(bar, i);
    if (EITHER(true, t >= 32 || i == 0)) AFTER();
    TAKE();
    BEFORE();
    __syncthreads();
    if (EITHER(true, t != 0)) AFTER();
  }
  END(32);
  // also: race
}

KERNEL another_shape_on_one_accumulator(const uint4* x, const uint4* w, u32* y) {
  START(32);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(64, 16), 0);
    CLEAN(COMMIT(mid); MBAR_WAIT(mid, 0); AFTER();)
    MMA(base, A, B, FORM(128, 16), 0);  // fault: race
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(32);
}

KERNEL accumulator_as_a_without_a_wait(const uint4* x, const uint4* w, u32* y) {
  START(64);
  FILL();
  READY();
  if (t == 0) {
    MMA(base, A, B, FORM(128, 16), 0);
    CLEAN(COMMIT(mid); MBAR_WAIT(mid, 0); AFTER();)
    MMA_T(base + 32, base + 8, B, FORM(128, 16), 0);  // fault: race
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(64);
}

// A is stored to tensor memory by the warps.

KERNEL a_stored_and_not_waited_for(const uint4* x, const uint4* w, u32* y) {
  START(64);
  if (t < 32) b[t % 2 * 16 + t / 2] = w[t];
  __syncthreads();
  STORE_A();
  CLEAN(WAIT_ST();)
  READY();
  if (t == 0) {
    MMA_T(base, base + 32, B, FORM(128, 16), 0);  // fault: race
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(64);
  // also: race
}

KERNEL a_stored_and_not_fenced(const uint4* x, const uint4* w, u32* y) {
  START(64);
  if (t < 32) b[t % 2 * 16 + t / 2] = w[t];
  __syncthreads();
  STORE_A();
  WAIT_ST();
  FENCE_ASYNC();
  CLEAN(BEFORE();)
  __syncthreads();
  AFTER();
  if (t == 0) {
    MMA_T(base, base + 32, B, FORM(128, 16), 0);  // fault: race
    COMMIT(bar);
  }
  MBAR_WAIT(bar, 0);
  AFTER();
  TAKE();
  END(64);
}
