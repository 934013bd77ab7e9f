// Whole products with mma.sync and ldmatrix: tiles of 64 x 64 of four warps, steps of 64 along k, a ring of two stages. Lines of
// 128 bytes, chunk c of line r at c ^ (r % 8). The ring is filled by a warp of its own with tensor copies (sm_90 and up), or by
// all threads with cp.async.
#include "planted.cuh"

constexpr int STAGES = 2, BYTES = 64 * 64 * 2;

#define LDMATRIX(r, p, trans) asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(p) : "memory")
#define MMA(d, a, b) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))

__device__ __forceinline__ u32 chunk_at(u32 tile, int line, int chunk) { return tile + line * 128 + ((chunk ^ line & 7) * 16); }

// The quarter of 32 x 32 of a warp, one stage: A has lines along m, B along n, or along k where it is TRANSPOSED_B.
template <int TRANSPOSED_B>
__device__ __forceinline__ void multiply(float (&d)[2][4][4], u32 a, u32 b) {
  int lane = threadIdx.x % 32, m = threadIdx.x / 64 * 32, n = threadIdx.x / 32 % 2 * 32;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    u32 left[2][4], right[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      LDMATRIX(left[i], chunk_at(a, m + 16 * i + lane % 16, 2 * step + lane / 16), "");
      if (TRANSPOSED_B)
        LDMATRIX(right[i], chunk_at(b, 16 * step + lane % 16, n / 8 + 2 * i + lane / 16), ".trans");
      else
        LDMATRIX(right[i], chunk_at(b, n + 16 * i + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2), "");
    }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) MMA(d[i][j], left[i], right[j / 2] + j % 2 * 2);
  }
}

__device__ __forceinline__ void store(const float (&d)[2][4][4], float* y, int n) {
  int lane = threadIdx.x % 32;
  y += (blockIdx.y * 64 + threadIdx.x / 64 * 32 + lane / 4) * n + blockIdx.x * 64 + threadIdx.x / 32 % 2 * 32 + 2 * (lane % 4);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int half = 0; half < 2; ++half)
        *(float2*)(y + (16 * i + 8 * half) * n + 8 * j) = make_float2(d[i][j][2 * half], d[i][j][2 * half + 1]);
}

#if __CUDA_ARCH__ >= 900
template <int TRANSPOSED_B>
__device__ __forceinline__ void product(const TensorMap& a, const TensorMap& b, float* y, int n, int k) {
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
        TMA_LOAD_2D(stage + BYTES, b, full[s], TRANSPOSED_B ? column : i * 64, TRANSPOSED_B ? i * 64 : column);
      }
    }
  } else {
    float d[2][4][4] = {};
    for (int i = 0; i < steps; ++i) {
      int s = i % STAGES;
      MBAR_WAIT(full[s], i / STAGES & 1);
      multiply<TRANSPOSED_B>(d, SMEM(stages) + s * 2 * BYTES, SMEM(stages) + s * 2 * BYTES + BYTES);
      FENCE_ASYNC();
      __syncwarp();
      if (t % 32 == 0) MBAR_ARRIVE(empty[s]);
    }
    store(d, y, n);
  }
}

extern "C" __global__ void __launch_bounds__(160)
    both_along_k(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* y, int n, int k) {
  product<0>(a, b, y, n, k);
}

extern "C" __global__ void __launch_bounds__(160)
    b_along_n(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* y, int n, int k) {
  product<1>(a, b, y, n, k);
}
#endif

// Both operands along k. Every thread copies four chunks of either operand a stage.
extern "C" __global__ void __launch_bounds__(128)
    filled_by_threads(const char* a, const char* b, float* y, int n, int k) {
  __shared__ __align__(128) char stages[STAGES * 2 * BYTES];
  int t = threadIdx.x, steps = k / 64;
  auto fill = [&](int i) {
    u32 stage = SMEM(stages) + i % STAGES * 2 * BYTES;
    for (int piece = t; piece < 512; piece += 128) {
      int line = piece / 8, chunk = piece % 8, from = i * 128 + chunk * 16;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(chunk_at(stage, line, chunk)), "l"(GMEM(a + (blockIdx.y * 64 + line) * 2 * k + from)) : "memory");
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(chunk_at(stage + BYTES, line, chunk)), "l"(GMEM(b + (blockIdx.x * 64 + line) * 2 * k + from)) : "memory");
    }
  };
  float d[2][4][4] = {};
  fill(0);
  CP_COMMIT();
  for (int i = 0; i < steps; ++i) {
    if (i + 1 < steps) fill(i + 1);
    CP_COMMIT();
    CP_WAIT(1);
    __syncthreads();
    multiply<0>(d, SMEM(stages) + i % STAGES * 2 * BYTES, SMEM(stages) + i % STAGES * 2 * BYTES + BYTES);
    __syncthreads();
  }
  store(d, y, n);
}
