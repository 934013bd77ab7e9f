// Two products with wgmma, the second's A made of the first's D in registers: y = bf16((q * k^T) / 4) * v, for q of 64 rows, k and v
// of n tiles of 64 rows, 64 columns each. The next tile's first product is issued before this tile's second, so that two groups
// are under way; a warp of its own fills rings of k and v by tensor copies.
namespace ENTRY_parts {

constexpr int TILE = 64 * 64 * 2;

#define REGISTERS "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ACCUMULATOR "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])

// Lines of 128 bytes, 1024 from 8 of them to the next 8.
__device__ __forceinline__ u64 descriptor(const void* p) {
  return (u64)(SMEM(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

__device__ __forceinline__ void from_shared(float (&d)[32], u64 a, u64 b, int adds) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS "}, %32, %33, p, 1, 1, 0, 0;\n}"
               : ACCUMULATOR : "l"(a), "l"(b), "r"(adds));
}

// B along n.
__device__ __forceinline__ void from_registers(float (&d)[32], const u32* a, u64 b, int adds) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\nwgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" REGISTERS "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
               : ACCUMULATOR : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));
}

}  // namespace ENTRY_parts

#define FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define WAIT(n) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory")

extern "C" __global__ void __launch_bounds__(160)
    ENTRY(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v, float* y, int n) {
  using namespace ENTRY_parts;
  extern __shared__ __align__(1024) char stages[];
  __shared__ u64 full_q, full_k[2], full_v[2], empty_k[2], empty_v[2];
  char *tile_q = stages, *tile_k = stages + TILE, *tile_v = stages + 3 * TILE;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(full_q, 1);
    for (int s = 0; s < 2; ++s) {
      MBAR_INIT(full_k[s], 1);
      MBAR_INIT(full_v[s], 1);
      MBAR_INIT(empty_k[s], 1);
      MBAR_INIT(empty_v[s], 1);
    }
    MBAR_FENCE();
  }
  __syncthreads();
  if (t >= 128) {
    if (t > 128) return;
    MBAR_EXPECT(full_q, TILE);
    TMA_LOAD_2D(tile_q, q, full_q, 0, 0);
    for (int j = 0; j < n; ++j) {
      int s = j % 2, free = (j / 2 + 1) & 1;
      MBAR_WAIT(empty_k[s], free);
      MBAR_EXPECT(full_k[s], TILE);
      TMA_LOAD_2D(tile_k + s * TILE, k, full_k[s], 0, 64 * j);
      MBAR_WAIT(empty_v[s], free);
      MBAR_EXPECT(full_v[s], TILE);
      TMA_LOAD_2D(tile_v + s * TILE, v, full_v[s], 0, 64 * j);
    }
    return;
  }
  float scores[32], out[32];
  u32 weights[16];
  auto score = [&](int j) {
    MBAR_WAIT(full_k[j % 2], j / 2 & 1);
    FENCE();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      from_shared(scores, descriptor(tile_q) + 2 * i, descriptor(tile_k + j % 2 * TILE) + 2 * i, i > 0);
    COMMIT();
  };
  MBAR_WAIT(full_q, 0);
  score(0);
  WAIT(0);
  if (t == 0) MBAR_ARRIVE(empty_k[0]);
#pragma unroll 1
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(weights[i]) : "f"(scores[2 * i + 1] * 0.25f), "f"(scores[2 * i] * 0.25f));
    if (j + 1 < n) score(j + 1);
    MBAR_WAIT(full_v[j % 2], j / 2 & 1);
    FENCE();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      from_registers(out, weights + 4 * i, descriptor(tile_v + j % 2 * TILE) + 128 * i, j > 0 || i > 0);
    COMMIT();
    if (j + 1 < n) {
      WAIT(1);
      if (t == 0) MBAR_ARRIVE(empty_k[(j + 1) % 2]);
    }
    WAIT(0);
    if (t == 0) MBAR_ARRIVE(empty_v[j % 2]);
  }
  float* mine = y + (16 * (t / 32) + t % 32 / 4) * 64 + 2 * (t % 4);
  for (int i = 0; i < 32; i += 2) *(float2*)(mine + i / 2 % 2 * 8 * 64 + i / 4 * 8) = make_float2(out[i], out[i + 1]);
}
