// Register counts of warpgroups: some give registers that others take.
#include "planted.cuh"

#undef KERNEL
#define KERNEL extern "C" __global__ void __launch_bounds__(512, 1)
#define LESS(n) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n))
#define MORE(n) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n))

KERNEL fewer_than_nothing(const int* x, int* y) {
  int t = threadIdx.x;
  if (t < 384) LESS(EITHER(80, 136));  // fault: invalid_operand
  y[t] = x[t];
}

KERNEL raised_to_less(const int* x, int* y) {
  int t = threadIdx.x;
  if (t < 256) LESS(80);
  else if (t < 384) MORE(EITHER(136, 120));  // fault: invalid_operand
  else MORE(200);
  y[t] = x[t];
}

KERNEL raised_beyond_what_there_is(const int* x, int* y) {
  int t = threadIdx.x;
  if (t < 384) LESS(EITHER(80, 96));
  else MORE(240);  // fault: deadlock
  y[t] = x[t];
}

KERNEL changed_by_one_warp(const int* x, int* y) {
  int t = threadIdx.x;
  if (t < EITHER(128, 32)) LESS(80);  // fault: divergent_collective
  y[t] = x[t];
}

KERNEL changed_twice_without_barrier(const int* x, int* y) {
  int t = threadIdx.x;
  if (t < 128) {
    LESS(80);
    CLEAN(asm volatile("bar.sync 1, 128;" ::: "memory");)
    LESS(40);  // fault: race
  }
  y[t] = x[t];
}
