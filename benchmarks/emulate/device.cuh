// What the kernels of the forms share: types, and the instructions around the one that is looked at.
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct alignas(64) TensorMap {
  u64 opaque[16];
};

#define SMEM(p) ((u32)__cvta_generic_to_shared(p))
#define MBAR_INIT(bar, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SMEM(&bar)), "r"(count) : "memory")
#define MBAR_FENCE() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define MBAR_ARRIVE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SMEM(&bar)) : "memory")
#define MBAR_EXPECT(bar, bytes) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SMEM(&bar)), "r"(bytes) : "memory")
#define MBAR_WAIT(bar, parity) asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(SMEM(&bar)), "r"(parity) : "memory")
#define MBAR_WAIT_CLUSTER(bar, parity) asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(SMEM(&bar)), "r"(parity) : "memory")
#define FENCE_ASYNC() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT(n) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory")
#define CLUSTER_SYNC() asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory")
#define TMA_LOAD_2D(dst, map, bar, c0, c1) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(SMEM(dst)), "l"(&map), "r"(SMEM(&bar)), "r"(c0), "r"(c1) : "memory")
#define MBAR_TEST(done, bar, parity) asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(SMEM(&bar)), "r"(parity) : "memory")
// Gives up after some milliseconds: for waits whose bytes may turn out to be others than expected.
#define MBAR_WAIT_AWHILE(bar, parity) do { u32 done = 0; long long start = clock64(); while (!done && clock64() - start < 20000000) MBAR_TEST(done, bar, parity); } while (0)
