// Instructions that are not emulated, and matrices of shared memory.
#include "planted.cuh"

KERNEL product_of_f64(const u32* x, float* y) {
  int t = threadIdx.x;
  double d[2] = {0.0, 0.0};
  EITHER(d[0] = __uint_as_float(x[t]), asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%2}, {%0, %1};" : "+d"(d[0]), "+d"(d[1]) : "d"(1.0)));  // fault: unsupported_instruction
  y[t] = (float)d[0];
}

KERNEL matrix_row_misaligned(const u32* x, u32* y) {
  __shared__ alignas(16) u32 s[36];
  int t = threadIdx.x;
  s[t] = x[t];
  if (t < 4) s[32 + t] = 0;
  __syncwarp();
  u32 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(SMEM(s + 4 * (t & 7) + EITHER(0, 1))) : "memory");  // fault: misaligned
  y[t] = v;
}

KERNEL matrix_read_before_written(const u32* x, u32* y) {
  __shared__ alignas(16) u32 s[32];
  int t = threadIdx.x;
  s[t] = x[t];  // fault: race
  CLEAN(__syncwarp();)
  u32 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(SMEM(s + 4 * (t & 7))) : "memory");  // fault: race
  y[t] = v;
}

KERNEL matrix_by_half_a_warp(const u32* x, u32* y) {
  __shared__ alignas(16) u32 s[32];
  int t = threadIdx.x;
  s[t] = x[t];
  __syncwarp();
  u32 v = 0;
  if (EITHER(true, t < 16)) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(SMEM(s + 4 * (t & 7))) : "memory");  // fault: divergent_collective
  }
  __syncwarp();
  y[t] = v;
}
