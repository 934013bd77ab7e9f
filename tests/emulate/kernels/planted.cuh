// What the kernels with planted faults share. FAULT is defined for the faulty build of a file, not for its clean twin.
// The instructions are macros, not functions, so that each stands at the source line that uses it.
#pragma once

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef FAULT
#define CLEAN(...)
#define EITHER(clean, faulty) faulty
#else
#define CLEAN(...) __VA_ARGS__
#define EITHER(clean, faulty) clean
#endif

#define KERNEL extern "C" __global__ void

struct alignas(64) TensorMap {
  u64 opaque[16];
};

#define SMEM(p) ((u32)__cvta_generic_to_shared(p))
#define GMEM(p) ((u64)__cvta_generic_to_global(p))

#define MBAR_INIT(bar, count) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SMEM(&bar)), "r"(count) : "memory")
#define MBAR_INVAL(bar) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(SMEM(&bar)) : "memory")
#define MBAR_FENCE() asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory")
#define MBAR_ARRIVE(bar) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SMEM(&bar)) : "memory")
#define MBAR_ARRIVE_N(bar, n) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(SMEM(&bar)), "r"(n) : "memory")
#define MBAR_EXPECT(bar, bytes) asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SMEM(&bar)), "r"(bytes) : "memory")
#define MBAR_WAIT(bar, parity) asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra.uni READY;\nbra.uni AGAIN;\nREADY:\n}" ::"r"(SMEM(&bar)), "r"(parity) : "memory")

#define FENCE_ASYNC() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
#define BULK_LOAD(dst, src, bytes, bar) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(SMEM(dst)), "l"(GMEM(src)), "r"(bytes), "r"(SMEM(&bar)) : "memory")
#define BULK_STORE(dst, src, bytes) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(GMEM(dst)), "r"(SMEM(src)), "r"(bytes) : "memory")
#define BULK_COMMIT() asm volatile("cp.async.bulk.commit_group;" ::: "memory")
#define BULK_WAIT(n) asm volatile("cp.async.bulk.wait_group %0;" ::"n"(n) : "memory")
#define BULK_WAIT_READ(n) asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(n) : "memory")

#define TMA_LOAD_2D(dst, map, bar, c0, c1) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(SMEM(dst)), "l"(&map), "r"(SMEM(&bar)), "r"(c0), "r"(c1) : "memory")
#define TMA_STORE_2D(map, src, c0, c1) asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(&map), "r"(SMEM(src)), "r"(c0), "r"(c1) : "memory")

#define CP_ASYNC(dst, src, bytes) asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(SMEM(dst)), "l"(GMEM(src)), "n"(bytes) : "memory")
#define CP_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory")
#define CLUSTER_SYNC() CLUSTER_ARRIVE(); CLUSTER_WAIT()
