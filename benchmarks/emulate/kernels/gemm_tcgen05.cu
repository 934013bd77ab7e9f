// Whole products with tcgen05.mma: tiles of 64 x 64, steps of 64 along k, a ring of two stages. One warp fills it by tensor copies,
// swizzled by 128 bytes, one allocates tensor memory and issues the products, four take the result out of it.
//
// ENTRY names the kernel, B_ALONG_N is 1 for a B of [k][n] and 0 for one of [n][k].
namespace ENTRY_parts {

constexpr int STAGES = 2, BYTES = 64 * 64 * 2;

// bf16 times bf16 to f32, 64 rows and columns; bit 16 for a B along n.
constexpr u32 FORM = 1 << 4 | 1 << 7 | 1 << 10 | 64 / 8 << 17 | 64 / 16 << 24;

// Lines of 128 bytes, 1024 from 8 of them to the next 8.
__device__ __forceinline__ u64 descriptor(const void* p) {
  return (u64)(SMEM(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61;
}

#define COMMIT(bar) asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(SMEM(&bar)) : "memory")

}  // namespace ENTRY_parts

extern "C" __global__ void __launch_bounds__(192)
    ENTRY(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* y, int n, int k) {
  using namespace ENTRY_parts;
  extern __shared__ __align__(1024) char stages[];
  __shared__ u64 full[STAGES], empty[STAGES], done;
  __shared__ u32 base;
  int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 64;
  if (t == 0) {
    for (int s = 0; s < STAGES; ++s) {
      MBAR_INIT(full[s], 1);
      MBAR_INIT(empty[s], 1);
    }
    MBAR_INIT(done, 1);
    MBAR_FENCE();
  }
  if (t / 32 == 5) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 64;" ::"r"(SMEM(&base)) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  __syncthreads();
  if (t == 128) {
    for (int i = 0; i < steps; ++i) {
      int s = i % STAGES;
      char* stage = stages + s * 2 * BYTES;
      MBAR_WAIT(empty[s], (i / STAGES + 1) & 1);
      MBAR_EXPECT(full[s], 2 * BYTES);
      TMA_LOAD_2D(stage, a, full[s], i * 64, row);
      TMA_LOAD_2D(stage + BYTES, b, full[s], B_ALONG_N ? column : i * 64, B_ALONG_N ? i * 64 : column);
    }
  } else if (t == 160) {
    for (int i = 0; i < steps; ++i) {
      int s = i % STAGES;
      char* stage = stages + s * 2 * BYTES;
      MBAR_WAIT(full[s], i / STAGES & 1);
      for (int step = 0; step < 4; ++step) {
        u64 left = descriptor(stage) + 2 * step, right = descriptor(stage + BYTES) + (B_ALONG_N ? 128 * step : 2 * step);
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(base), "l"(left), "l"(right), "r"(FORM | B_ALONG_N << 16), "r"((int)(i > 0 || step > 0)) : "memory");
      }
      COMMIT(empty[s]);
    }
    COMMIT(done);
  } else if (t < 128) {
    // Rows 16*(t/32) to +15 are in the first 16 lanes of the warp's quarter, columns as in a fragment of mma.sync.
    MBAR_WAIT(done, 0);
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    float* mine = y + (row + t / 32 * 16 + t % 32 / 4) * n + column + 2 * (t % 4);
    for (int part = 0; part < 8; ++part) {
      u32 v[4];
      asm volatile("tcgen05.ld.sync.aligned.16x256b.x1.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "r"(base + (t / 32 * 32 << 16) + 8 * part) : "memory");
      asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
      for (int half = 0; half < 2; ++half)
        *(float2*)(mine + half * 8 * n + 8 * part) = make_float2(__uint_as_float(v[2 * half]), __uint_as_float(v[2 * half + 1]));
    }
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  }
  __syncthreads();
  if (t / 32 == 5) {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 64;" ::"r"(base));
  }
}
