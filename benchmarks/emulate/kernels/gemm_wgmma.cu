// Whole products with wgmma: tiles of 64 x 64, steps of 64 along k, a ring of two stages that a warp of its own fills by
// tensor copies, swizzled by 128 bytes; a warpgroup multiplies, one group of products under way.
//
// ENTRY names the kernel, B_ALONG_N is 1 for a B of [k][n] and 0 for one of [n][k].
namespace ENTRY_parts {

constexpr int STAGES = 2, BYTES = 64 * 64 * 2;

// D of 64 x 64, f32, of bf16 operands in shared memory, for one step of 16 along k.
__device__ __forceinline__ void multiply(float (&d)[32], u64 a, u64 b, int adds) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, p, 1, 1, 0, %35;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
        "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
        "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
        "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
      : "l"(a), "l"(b), "r"(adds), "n"(B_ALONG_N));
}

// Lines of 128 bytes, 1024 from 8 of them to the next 8 (SBO); LBO is not used, or lies within one box.
__device__ __forceinline__ u64 descriptor(const void* p) {
  return (u64)(SMEM(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

}  // namespace ENTRY_parts

// y[m][n] = sum over k of a[m][k] * b[n][k], or b[k][n].
extern "C" __global__ void __launch_bounds__(256, 1)
    ENTRY(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* y, int n, int k) {
  using namespace ENTRY_parts;
  extern __shared__ __align__(1024) char stages[];
  __shared__ u64 full[STAGES], empty[STAGES];
  int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 64;
  if (t == 0) {
    for (int s = 0; s < STAGES; ++s) {
      MBAR_INIT(full[s], 1);
      MBAR_INIT(empty[s], 1);
    }
    MBAR_FENCE();
  }
  __syncthreads();
  if (t >= 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
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
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float d[32];
    for (int i = 0; i < steps; ++i) {
      int s = i % STAGES;
      char* stage = stages + s * 2 * BYTES;
      MBAR_WAIT(full[s], i / STAGES & 1);
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int step = 0; step < 4; ++step)
        multiply(d, descriptor(stage) + 2 * step,
                               descriptor(stage + BYTES) + (B_ALONG_N ? 128 * step : 2 * step), i > 0 || step > 0);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      if (i > 0) {  // at most this group is under way: the stage before is free
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (t == 0) MBAR_ARRIVE(empty[(i - 1) % STAGES]);
      }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    float* mine = y + (row + 16 * (t / 32) + t % 32 / 4) * n + column + 2 * (t % 4);
    for (int i = 0; i < 32; i += 2) *(float2*)(mine + i / 2 % 2 * 8 * n + i / 4 * 8) = make_float2(d[i], d[i + 1]);
  }
}
