// Bulk copies of runs of bytes: operands, the two proxies, and who waits for what.
#include "planted.cuh"

#define LOADER(words)                   \
  __shared__ alignas(128) int s[words]; \
  __shared__ u64 full;                  \
  int t = threadIdx.x;                  \
  if (t == 0) {                         \
    MBAR_INIT(full, 1);                 \
    MBAR_FENCE();                       \
  }                                     \
  __syncthreads()

KERNEL size_not_of_16(const int* x, int* y, int bytes) {
  LOADER(64);
  if (t == 0) {
    MBAR_EXPECT(full, EITHER(256, bytes));
    BULK_LOAD(s, x, EITHER(256, bytes), full);  // fault: invalid_operand
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t];
  // also: deadlock mbarrier_misuse uninitialized_read in_flight_at_exit race
}

KERNEL shared_side_misaligned(const int* x, int* y) {
  LOADER(68);
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s + EITHER(4, 2), x, 256, full);  // fault: invalid_operand or misaligned
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t + EITHER(4, 2)];
  // also: deadlock mbarrier_misuse uninitialized_read
}

KERNEL global_side_misaligned(const int* x, int* y) {
  LOADER(64);
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s, x + EITHER(4, 1), 256, full);  // fault: invalid_operand or misaligned
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t];
  // also: deadlock mbarrier_misuse uninitialized_read
}

KERNEL load_past_the_tensor(const int* x, int* y) {
  LOADER(64);
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s, x + EITHER(64, 68), 256, full);  // fault: out_of_bounds
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t];
  // also: deadlock mbarrier_misuse uninitialized_read
}

KERNEL load_past_the_buffer(const int* x, int* y) {
  __shared__ u64 full;
  extern __shared__ __align__(128) int buffer[];
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(full, 1);
    MBAR_FENCE();
  }
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, EITHER(256, 512));
    BULK_LOAD(buffer, x, EITHER(256, 512), full);  // fault: out_of_bounds
  }
  MBAR_WAIT(full, 0);
  y[t] = buffer[t];
  // also: deadlock mbarrier_misuse uninitialized_read
}

KERNEL store_without_proxy_fence(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  s[t] = 3 * x[t];  // fault: proxy_race
  CLEAN(FENCE_ASYNC();)
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: proxy_race
    BULK_COMMIT();
    BULK_WAIT_READ(0);
  }
}

// Only the issuing thread fences, and before the barrier: the other writers' values are not covered.
KERNEL fence_of_one_thread(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  s[t] = 3 * x[t];  // fault: proxy_race
  if (EITHER(true, t == 0)) FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: proxy_race
    BULK_COMMIT();
    BULK_WAIT(0);
  }
}

KERNEL store_without_barrier(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  s[t] = 3 * x[t];  // fault: race
  FENCE_ASYNC();
  CLEAN(__syncthreads();)
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: race
    BULK_COMMIT();
    BULK_WAIT(0);
  }
  // also: uninitialized_read
}

KERNEL source_reused(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    s[t] = x[64 * k + t] + k;  // fault: race
    FENCE_ASYNC();
    __syncthreads();
    if (t == 0) {
      BULK_STORE(y + 64 * k, s, 256);  // fault: race
      BULK_COMMIT();
      if (EITHER(true, k == 1)) BULK_WAIT_READ(0);
    }
    __syncthreads();
  }
}

// Two stages of staging memory; the wait lets one group too many go unfinished.
KERNEL source_reused_a_stage_early(const int* x, int* y) {
  __shared__ alignas(128) int s[2][64];
  int t = threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    if (t == 0) BULK_WAIT_READ(EITHER(1, 2));
    __syncthreads();
    s[k & 1][t] = x[64 * k + t] - k;  // fault: race
    FENCE_ASYNC();
    __syncthreads();
    if (t == 0) {
      BULK_STORE(y + 64 * k, s[k & 1], 256);  // fault: race
      BULK_COMMIT();
    }
  }
  if (t == 0) BULK_WAIT_READ(0);
}

KERNEL wait_by_another_thread(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: in_flight_at_exit
    BULK_COMMIT();
  }
  if (t == EITHER(0, 32)) BULK_WAIT_READ(0);
}

KERNEL store_in_flight(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: in_flight_at_exit
    BULK_COMMIT();
    CLEAN(BULK_WAIT_READ(0);)
  }
}

KERNEL store_not_committed(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: in_flight_at_exit
    CLEAN(BULK_COMMIT();)
    BULK_WAIT_READ(0);
  }
}

KERNEL load_in_flight(const int* x, int* y) {
  LOADER(64);
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s, x, 256, full);  // fault: in_flight_at_exit
    CLEAN(MBAR_WAIT(full, 0);)
  }
  y[t] = t;
}

// What `.read` promises is the source alone: the result is read back too early.
KERNEL result_read_too_early(const int* x, int* y, int* z) {
  __shared__ alignas(128) int s[64];
  int t = threadIdx.x;
  s[t] = x[t];
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: race
    BULK_COMMIT();
    EITHER(BULK_WAIT(0), BULK_WAIT_READ(0));
    z[0] = *(volatile int*)(y + 5);  // fault: race
  }
  // also: uninitialized_read
}
