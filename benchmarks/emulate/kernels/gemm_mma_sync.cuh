// Tiles of 64 x 64 of four warps with mma.sync and ldmatrix, steps of 64 along k from stages in shared memory: what kernels with
// such a ring share. Lines of 128 bytes, chunk c of line r at c ^ (r % 8).
//
// ENTRY names the kernel, B_ALONG_N is 1 for a B of [k][n] and 0 for one of [n][k].
namespace ENTRY_parts {

constexpr int STAGES = 2, BYTES = 64 * 64 * 2;

#define LDMATRIX(r, p, trans) asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"((r)[0]), "=r"((r)[1]), "=r"((r)[2]), "=r"((r)[3]) : "r"(p) : "memory")
#define MMA(d, a, b) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3]) : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))

__device__ __forceinline__ u32 chunk_at(u32 tile, int line, int chunk) { return tile + line * 128 + ((chunk ^ line & 7) * 16); }

// The quarter of 32 x 32 of a warp, one stage: A has lines along m, B along n, or along k where it is B_ALONG_N.
__device__ __forceinline__ void multiply(float (&d)[2][4][4], u32 a, u32 b) {
  int lane = threadIdx.x % 32, m = threadIdx.x / 64 * 32, n = threadIdx.x / 32 % 2 * 32;
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    u32 left[2][4], right[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      LDMATRIX(left[i], chunk_at(a, m + 16 * i + lane % 16, 2 * step + lane / 16), "");
      if (B_ALONG_N)
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

}  // namespace ENTRY_parts
