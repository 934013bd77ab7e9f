// cp.async: groups, waits and the barrier after them.
#include "planted.cuh"

KERNEL no_wait(const int* x, int* y) {
  __shared__ alignas(16) int s[128];
  int t = threadIdx.x;
  CP_ASYNC(s + 4 * t, x + 4 * t, 16);  // fault: race or in_flight_at_exit
  CP_COMMIT();
  CLEAN(CP_WAIT(0);)
  y[t] = s[4 * t] + s[4 * t + 3];  // fault: race or uninitialized_read
  // also: uninitialized_read in_flight_at_exit race
}

KERNEL no_commit(const int* x, int* y) {
  __shared__ alignas(16) int s[128];
  int t = threadIdx.x;
  CP_ASYNC(s + 4 * t, x + 4 * t, 16);  // fault: race or in_flight_at_exit
  CLEAN(CP_COMMIT();)
  CP_WAIT(0);
  y[t] = s[4 * t] + s[4 * t + 3];  // fault: race or uninitialized_read
  // also: uninitialized_read in_flight_at_exit race
}

// Each thread waits for its own copies; what the others brought needs the barrier too.
KERNEL no_barrier(const int* x, int* y) {
  __shared__ alignas(16) int s[256];
  int t = threadIdx.x;
  CP_ASYNC(s + 4 * t, x + 4 * t, 16);  // fault: race
  CP_COMMIT();
  CP_WAIT(0);
  CLEAN(__syncthreads();)
  y[t] = s[4 * (63 - t)];  // fault: race
  // also: uninitialized_read
}

// The barrier stands before the wait.
KERNEL wait_after_barrier(const int* x, int* y) {
  __shared__ alignas(16) int s[256];
  int t = threadIdx.x;
  CP_ASYNC(s + 4 * t, x + 4 * t, 16);  // fault: race
  CP_COMMIT();
  EITHER(CP_WAIT(0), __syncthreads());
  EITHER(__syncthreads(), CP_WAIT(0));
  y[t] = s[4 * (63 - t)];  // fault: race
  // also: uninitialized_read
}

// Three stages: at most one group may be under way when a stage is read.
KERNEL pipeline_waits_for_too_few(const int* x, int* y) {
  __shared__ alignas(16) int s[3][64];
  int t = threadIdx.x;
  for (int k = 0; k < 2; ++k) {
    CP_ASYNC(&s[k][t], x + 64 * k + t, 4);  // fault: race
    CP_COMMIT();
  }
#pragma unroll 1
  for (int k = 0; k < 6; ++k) {
    CP_WAIT(EITHER(1, 2));
    __syncthreads();
    y[64 * k + t] = s[k % 3][63 - t];  // fault: race
    if (k + 2 < 6) CP_ASYNC(&s[(k + 2) % 3][t], x + 64 * (k + 2) + t, 4);  // fault: race
    CP_COMMIT();
  }
  // also: uninitialized_read in_flight_at_exit
}

KERNEL stage_overwritten(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  int t = threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < 3; ++k) {
    CP_ASYNC(s + t, x + 64 * k + t, 4);  // fault: race
    CP_COMMIT();
    CP_WAIT(0);
    __syncthreads();
    y[64 * k + t] = s[63 - t];  // fault: race
    CLEAN(__syncthreads();)
  }
}

KERNEL misaligned_copy(const int* x, int* y) {
  __shared__ alignas(16) int s[132];
  int t = threadIdx.x;
  CP_ASYNC(s + 4 * t, x + 4 * t + EITHER(4, 2), 16);  // fault: misaligned or invalid_operand
  CP_COMMIT();
  CP_WAIT(0);
  __syncthreads();
  y[t] = s[4 * t];
  // also: uninitialized_read
}

KERNEL copy_past_the_end(const int* x, int* y, int n) {
  __shared__ alignas(16) int s[64];
  int t = threadIdx.x, i = EITHER(t < n ? t : 0, t), bytes = EITHER(t < n ? 4 : 0, 4);
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SMEM(s + t)), "l"(GMEM(x + i)), "r"(bytes) : "memory");  // fault: out_of_bounds
  CP_COMMIT();
  CP_WAIT(0);
  y[t] = s[t];
  // also: uninitialized_read
}

// The mbarrier that follows the copies is told of them by no one.
KERNEL arrive_before_copies(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(full, 64);
  __syncthreads();
  CP_ASYNC(s + t, x + t, 4);  // fault: race
  EITHER(asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(SMEM(&full)) : "memory"), MBAR_ARRIVE(full));
  MBAR_WAIT(full, 0);
  y[t] = s[63 - t];  // fault: race
  // also: uninitialized_read in_flight_at_exit
}
