// A ring of two stages that a thread fills by bulk copies and 256 others read, for a card: what frees a stage.
// FENCE: 0 nothing but the arrivals, 1 a proxy fence in the readers before they arrive, 2 one in the issuer after its
// wait. Readers do not use what they load before they arrive, and their loads take long: banks conflict.
typedef unsigned int u32;
typedef unsigned long long u64;

#define SMEM(p) ((u32)__cvta_generic_to_shared(p))
#define FENCE_ASYNC() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")

constexpr int WORDS = 2048, READERS = 256, STAGES = 2, EACH = WORDS / READERS;

__device__ void wait(u64* bar, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(
          SMEM(bar)),
      "r"(parity)
      : "memory");
}

extern "C" __global__ void ring(const u32* x, u32* y, int tiles) {
  __shared__ alignas(128) u32 s[STAGES][WORDS];
  __shared__ u64 full[STAGES], empty[STAGES];
  int t = threadIdx.x;
  if (t == 0) {
    for (int k = 0; k < STAGES; ++k) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(SMEM(full + k)) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SMEM(empty + k)), "n"(READERS) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  x += (u64)blockIdx.x * tiles * WORDS;
  y += (u64)blockIdx.x * tiles * WORDS;
  if (t >= READERS) {
    for (int i = 0; i < tiles && t == READERS; ++i) {
      int k = i % STAGES;
      wait(empty + k, (i / STAGES & 1) ^ 1);
      if (FENCE == 2) FENCE_ASYNC();
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SMEM(full + k)), "n"(4 * WORDS) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(SMEM(s[k])),
                   "l"(__cvta_generic_to_global(x + i * WORDS)), "n"(4 * WORDS), "r"(SMEM(full + k))
                   : "memory");
    }
    return;
  }
  int first = t % 32 * 32 + t / 32 * 4;
  for (int i = 0; i < tiles; ++i) {
    int k = i % STAGES;
    wait(full + k, i / STAGES & 1);
    u32 v[EACH];
    for (int j = 0; j < EACH; ++j) {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[j]) : "r"(SMEM(&s[k][first + j % 4 + j / 4 * 1024])) : "memory");
    }
    if (FENCE == 1) FENCE_ASYNC();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SMEM(empty + k)) : "memory");
    for (int j = 0; j < EACH; ++j) y[i * WORDS + first + j % 4 + j / 4 * 1024] = v[j];
  }
}
