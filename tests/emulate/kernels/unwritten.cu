// Reads of what nobody wrote.
#include "planted.cuh"

KERNEL shared_half_written(const int* x, int* y) {
  __shared__ int s[128];
  int t = threadIdx.x;
  if (EITHER(true, t < 64)) s[t] = x[t];
  __syncthreads();
  y[t] = s[127 - t];  // fault: uninitialized_read
}

KERNEL accumulate_into_output(const int* x, int* y) {
  int t = threadIdx.x;
  CLEAN(y[t] = 0;)
  asm volatile("" ::: "memory");
  y[t] += x[t];  // fault: uninitialized_read
}

KERNEL atomic_on_unwritten_shared(const int* x, int* y) {
  __shared__ int sum;
  int t = threadIdx.x;
  CLEAN(if (t == 0) sum = 0;)
  __syncthreads();
  atomicAdd(&sum, x[t]);  // fault: uninitialized_read
  __syncthreads();
  if (t == 0) y[0] = sum;
}

KERNEL register_on_one_path(const int* x, int* y) {
  int t = threadIdx.x, v = x[t], r;
  asm volatile("{\n.reg .pred p;\n.reg .b32 a;\nsetp.gt.s32 p, %1, %2;\n@p mov.b32 a, 17;\nadd.s32 %0, a, %1;\n}" : "=r"(r) : "r"(v), "r"(EITHER(-1, 40)));  // fault: uninitialized_read
  y[t] = r;
}

KERNEL local_element_left_out(const int* x, int* y) {
  int t = threadIdx.x;
  int a[8];
#pragma unroll 1
  for (int k = 0; k < EITHER(8, 7); ++k) a[k] = x[8 * t + k];
  y[t] = a[x[t] % 8];  // fault: uninitialized_read
}

KERNEL scratch_of_another_kernel(const int* x, int* scratch, int* y) {
  int t = threadIdx.x;
  CLEAN(scratch[t] = x[t] * x[t];)
  __syncthreads();
  y[t] = scratch[63 - t];  // fault: uninitialized_read
}

KERNEL bulk_store_of_unwritten(const int* x, int* y) {
  __shared__ alignas(16) int s[64];
  int t = threadIdx.x;
  if (t < EITHER(64, 60)) s[t] = x[t];
  FENCE_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(y, s, 256);  // fault: uninitialized_read
    BULK_COMMIT();
    BULK_WAIT(0);
  }
}
