// A whole product with mma.sync: a warp of its own fills the ring by tensor copies, swizzled by 128 bytes.
extern "C" __global__ void __launch_bounds__(160)
    ENTRY(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* y, int n, int k) {
  using namespace ENTRY_parts;
  extern __shared__ __align__(1024) char stages[];
  __shared__ u64 full[STAGES], empty[STAGES];
  int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 64;
  if (t == 0) {
    for (int s = 0; s < STAGES; ++s) {
      MBAR_INIT(full[s], 1);
      MBAR_INIT(empty[s], 4);
    }
    MBAR_FENCE();
  }
  __syncthreads();
  if (t >= 128) {
    if (t == 128) {
      for (int i = 0; i < steps; ++i) {
        int s = i % STAGES;
        char* stage = stages + s * 2 * BYTES;
        MBAR_WAIT(empty[s], (i / STAGES + 1) & 1);
        MBAR_EXPECT(full[s], 2 * BYTES);
        TMA_LOAD_2D(stage, a, full[s], i * 64, row);
        TMA_LOAD_2D(stage + BYTES, b, full[s], B_ALONG_N ? column : i * 64, B_ALONG_N ? i * 64 : column);
      }
    }
  } else {
    float d[2][4][4] = {};
    for (int i = 0; i < steps; ++i) {
      int s = i % STAGES;
      MBAR_WAIT(full[s], i / STAGES & 1);
      multiply(d, SMEM(stages) + s * 2 * BYTES, SMEM(stages) + s * 2 * BYTES + BYTES);
      FENCE_ASYNC();
      __syncwarp();
      if (t % 32 == 0) MBAR_ARRIVE(empty[s]);
    }
    store(d, y, n);
  }
}
