// A whole product with mma.sync, sm_80 and up: every thread copies four chunks of either operand a stage by cp.async. Both
// operands along k.
extern "C" __global__ void __launch_bounds__(128)
    ENTRY(const char* a, const char* b, float* y, int n, int k) {
  using namespace ENTRY_parts;
  __shared__ __align__(128) char stages[STAGES * 2 * BYTES];
  int t = threadIdx.x, steps = k / 64;
  auto fill = [&](int i) {
    u32 stage = SMEM(stages) + i % STAGES * 2 * BYTES;
    for (int piece = t; piece < 512; piece += 128) {
      int line = piece / 8, chunk = piece % 8, from = i * 128 + chunk * 16;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(chunk_at(stage, line, chunk)), "l"(__cvta_generic_to_global(a + (blockIdx.y * 64 + line) * 2 * k + from)) : "memory");
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(chunk_at(stage + BYTES, line, chunk)), "l"(__cvta_generic_to_global(b + (blockIdx.x * 64 + line) * 2 * k + from)) : "memory");
    }
  };
  float d[2][4][4] = {};
  fill(0);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int i = 0; i < steps; ++i) {
    if (i + 1 < steps) fill(i + 1);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    multiply(d, SMEM(stages) + i % STAGES * 2 * BYTES, SMEM(stages) + i % STAGES * 2 * BYTES + BYTES);
    __syncthreads();
  }
  store(d, y, n);
}
