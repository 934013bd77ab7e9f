// mbarriers: counts, bytes, parities, and the life of the object.
#include "planted.cuh"

KERNEL load_without_wait(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  s[t] = -1;
  if (t == 0) MBAR_INIT(full, 1);
  MBAR_FENCE();
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s, x, 256, full);  // fault: race
  }
  CLEAN(MBAR_WAIT(full, 0);)
  y[t] = s[t];  // fault: race
  // also: in_flight_at_exit
}

// One thread waits, the others trust it without a barrier.
KERNEL wait_of_one_thread(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(full, 1);
  MBAR_FENCE();
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s, x, 256, full);  // fault: race
    MBAR_WAIT(full, 0);
  }
  CLEAN(__syncthreads();)
  y[t] = s[t];  // fault: race
  // also: uninitialized_read
}

KERNEL parity_of_the_first_phase(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(full, 1);
  MBAR_FENCE();
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s, x, 256, full);
  }
  MBAR_WAIT(full, EITHER(0, 1));  // fault: mbarrier_misuse
  y[t] = s[t];
  // also: race uninitialized_read in_flight_at_exit deadlock
}

KERNEL parity_not_flipped(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(full, 1);
  MBAR_FENCE();
  __syncthreads();
#pragma unroll 1
  for (int k = 0; k < 3; ++k) {
    if (t == 0) {
      MBAR_EXPECT(full, 256);
      BULK_LOAD(s, x + 64 * k, 256, full);
    }
    MBAR_WAIT(full, EITHER(k & 1, 0));  // fault: mbarrier_misuse
    y[64 * k + t] = s[t];
    FENCE_ASYNC();
    __syncthreads();
  }
  // also: race uninitialized_read in_flight_at_exit deadlock
}

KERNEL too_many_bytes_expected(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(full, 1);
  MBAR_FENCE();
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, EITHER(256, 272));  // fault: mbarrier_misuse
    BULK_LOAD(s, x, 256, full);
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t];
  // also: deadlock in_flight_at_exit
}

KERNEL too_few_bytes_expected(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(full, 1);
  MBAR_FENCE();
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, EITHER(256, 128));  // fault: mbarrier_misuse
    BULK_LOAD(s, x, 256, full);
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t];
  // also: deadlock in_flight_at_exit
}

// Two copies are issued, the bytes of one are expected.
KERNEL bytes_of_one_copy_of_two(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(full, 1);
  MBAR_FENCE();
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, EITHER(256, 128));  // fault: mbarrier_misuse
    BULK_LOAD(s, x, 128, full);  // fault: mbarrier_misuse
    BULK_LOAD(s + 32, x + 32, 128, full);  // fault: mbarrier_misuse
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t];
  // also: race uninitialized_read deadlock in_flight_at_exit
}

KERNEL missing_arrive(const int* x, int* y) {
  __shared__ int s[32];
  __shared__ u64 ready;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(ready, 32);
  __syncthreads();
  if (t < 32) {
    s[t] = x[t];
    if (t < EITHER(32, 31)) MBAR_ARRIVE(ready);
  } else {
    MBAR_WAIT(ready, 0);  // fault: deadlock
    y[t - 32] = s[63 - t];
  }
}

KERNEL count_of_a_warp_for_a_thread(const int* x, int* y) {
  __shared__ int s[32];
  __shared__ u64 ready;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(ready, EITHER(1, 32));
  __syncthreads();
  if (t < 32) {
    s[t] = x[t];
    __syncwarp();
    if (t == 0) MBAR_ARRIVE(ready);
  } else {
    MBAR_WAIT(ready, 0);  // fault: deadlock
    y[t - 32] = s[63 - t];
  }
}

KERNEL more_arrivals_than_pending(const int* x, int* y) {
  __shared__ int s[32];
  __shared__ u64 ready;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(ready, 2);
  __syncthreads();
  if (t < 32) {
    s[t] = x[t];
    __syncwarp();
    if (t == 0) MBAR_ARRIVE_N(ready, EITHER(2, 3));  // fault: mbarrier_misuse
  } else {
    MBAR_WAIT(ready, 0);
    y[t - 32] = s[63 - t];
  }
  // also: deadlock
}

KERNEL used_before_init(const int* x, int* y) {
  __shared__ int s[32];
  __shared__ u64 ready;
  int t = threadIdx.x;
  CLEAN(if (t == 0) MBAR_INIT(ready, 32);)
  __syncthreads();
  if (t < 32) {
    s[t] = x[t];
    MBAR_ARRIVE(ready);  // fault: mbarrier_misuse
  } else {
    MBAR_WAIT(ready, 0);  // fault: mbarrier_misuse
    y[t - 32] = s[63 - t];
  }
  // also: uninitialized_read deadlock race
}

// The others may use it before the thread that initialises it has done so.
KERNEL init_without_barrier(const int* x, int* y) {
  __shared__ int s[32];
  __shared__ u64 ready;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(ready, 32);  // fault: race
  CLEAN(__syncthreads();)
  if (t < 32) {
    s[t] = x[t];
    MBAR_ARRIVE(ready);  // fault: race or mbarrier_misuse
  } else {
    MBAR_WAIT(ready, 0);  // fault: race or mbarrier_misuse
    y[t - 32] = s[63 - t];
  }
  // also: race mbarrier_misuse deadlock uninitialized_read
}

KERNEL init_again(const int* x, int* y) {
  __shared__ int s[64];
  __shared__ u64 ready;
  int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    if (t == 0) {
      CLEAN(if (k > 0) MBAR_INVAL(ready);)
      MBAR_INIT(ready, 64);  // fault: mbarrier_misuse
    }
    __syncthreads();
    s[t] = x[64 * k + t];
    MBAR_ARRIVE(ready);
    MBAR_WAIT(ready, 0);
    y[64 * k + t] = s[63 - t];
    __syncthreads();
  }
}

KERNEL memory_of_a_live_barrier(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  int t = threadIdx.x;
  u64& ready = *reinterpret_cast<u64*>(s);
  if (t == 0) MBAR_INIT(ready, 32);
  __syncthreads();
  MBAR_ARRIVE(ready);
  MBAR_WAIT(ready, 0);
  __syncthreads();
  CLEAN(if (t == 0) MBAR_INVAL(ready);)
  __syncthreads();
  s[t] = x[t];  // fault: mbarrier_misuse
  __syncthreads();
  y[t] = s[31 - t];  // fault: mbarrier_misuse
}

KERNEL count_of_zero(const int* x, int* y, int count) {
  __shared__ int s[32];
  __shared__ u64 ready;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(ready, EITHER(32, count));  // fault: invalid_operand or mbarrier_misuse
  __syncthreads();
  s[t] = x[t];
  MBAR_ARRIVE(ready);
  MBAR_WAIT(ready, 0);
  y[t] = s[31 - t];
  // also: race deadlock mbarrier_misuse
}

// The copy engine may not yet see the barrier that a thread made.
KERNEL missing_fence_of_init(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(full, 1);  // fault: proxy_race
    CLEAN(MBAR_FENCE();)
  }
  __syncthreads();
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    BULK_LOAD(s, x, 256, full);  // fault: proxy_race
  }
  MBAR_WAIT(full, 0);
  y[t] = s[t];
}
