// Instructions that are not emulated, and matrices of shared memory.
#include "planted.cuh"

KERNEL tensor_core_product(const u32* x, float* y) {
  int t = threadIdx.x;
  float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  EITHER(d[0] = __uint_as_float(x[t]), asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(x[t])));  // fault: unsupported_instruction
  y[t] = d[0];
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
