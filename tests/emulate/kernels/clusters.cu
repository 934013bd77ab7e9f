// Clusters: shared memory of another block, while it is there and after it was written.
#include "planted.cuh"

#define RANK(r) asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r))
#define MAPA(r, p, rank) asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(SMEM(p)), "r"(rank))
#define LD_REMOTE(v, a) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(a) : "memory")
#define ST_REMOTE(a, v) asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(a), "r"(v) : "memory")
#define MULTICAST(dst, src, bytes, bar, mask) asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(SMEM(dst)), "l"(GMEM(src)), "r"(bytes), "r"(SMEM(&bar)), "h"((u16)mask) : "memory")

KERNEL remote_read_without_cluster_barrier(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x, i = blockIdx.x * 64 + t, v;
  u32 rank, remote;
  RANK(rank);
  s[t] = x[i];  // fault: race
  EITHER(CLUSTER_SYNC(), __syncthreads());
  MAPA(remote, s + t, rank ^ 1);
  LD_REMOTE(v, remote);  // fault: race
  y[i] = v;
  CLUSTER_SYNC();
  // also: uninitialized_read
}

KERNEL remote_write_without_cluster_barrier(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  u32 rank, remote;
  RANK(rank);
  CLUSTER_SYNC();
  MAPA(remote, s + t, rank ^ 1);
  ST_REMOTE(remote, x[i]);  // fault: race
  EITHER(CLUSTER_SYNC(), __syncthreads());
  y[i] = s[t];  // fault: race
  EITHER(, CLUSTER_SYNC());
  // also: uninitialized_read
}

// A block may leave while its neighbour still reads from it.
KERNEL block_leaves_early(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x, i = blockIdx.x * 64 + t, v = 0;
  u32 rank, remote;
  RANK(rank);
  s[t] = x[i];
  CLUSTER_SYNC();
  MAPA(remote, s + t, rank ^ 1);
  LD_REMOTE(v, remote);  // fault: race or out_of_bounds or invalid_operand
  y[i] = v;
  CLEAN(CLUSTER_SYNC();)
}

KERNEL rank_outside_of_cluster(const int* x, int* y) {
  __shared__ int s[64];
  int t = threadIdx.x, i = blockIdx.x * 64 + t, v;
  u32 rank, remote;
  RANK(rank);
  s[t] = x[i];
  CLUSTER_SYNC();
  MAPA(remote, s + t, EITHER(rank ^ 1, rank + 1));  // fault: out_of_bounds or invalid_operand
  LD_REMOTE(v, remote);  // fault: out_of_bounds or invalid_operand
  y[i] = v;
  CLUSTER_SYNC();
  // also: out_of_bounds
}

// The block of rank 0 loads for both; the other may not yet have made its barrier.
KERNEL multicast_before_init(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  u32 rank;
  RANK(rank);
  if (t == 0) {
    MBAR_INIT(full, 1);
    MBAR_FENCE();
  }
  EITHER(CLUSTER_SYNC(), __syncthreads());
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    if (rank == 0) MULTICAST(s, x, 256, full, 3);  // fault: race or mbarrier_misuse or proxy_race
  }
  MBAR_WAIT(full, 0);
  y[i] = s[t];
  CLUSTER_SYNC();
  // also: race mbarrier_misuse proxy_race uninitialized_read deadlock
}

// The mbarrier of a block tells that the bytes of a multicast came there; the other block's may still be on their way.
KERNEL multicast_awaited_by_its_issuer(const int* x, int* y) {
  __shared__ alignas(128) int s[64];
  __shared__ u64 full;
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  u32 rank;
  RANK(rank);
  if (t == 0) {
    MBAR_INIT(full, 1);
    MBAR_FENCE();
  }
  CLUSTER_SYNC();
  if (t == 0) {
    MBAR_EXPECT(full, 256);
    if (rank == 0) MULTICAST(s, x, 256, full, 3);
  }
  if (rank == 0) MBAR_WAIT(full, 0);
  CLUSTER_SYNC();
  CLEAN(if (rank != 0) MBAR_WAIT(full, 0);)
  y[i] = s[t];  // fault: race
  EITHER(, if (rank != 0) MBAR_WAIT(full, 0));
  // also: uninitialized_read
}

// Remote arrivals tell the neighbour that its buffer is full.
KERNEL remote_arrive_missing(const int* x, int* y) {
  __shared__ int s[64];
  __shared__ u64 full;
  int t = threadIdx.x, i = blockIdx.x * 64 + t;
  u32 rank, remote, remote_bar;
  RANK(rank);
  if (t == 0) {
    MBAR_INIT(full, 64);
    MBAR_FENCE();
  }
  CLUSTER_SYNC();
  MAPA(remote, s + t, rank ^ 1);
  MAPA(remote_bar, &full, rank ^ 1);
  ST_REMOTE(remote, x[i]);
  if (EITHER(true, t != 5)) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote_bar) : "memory");
  asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n@!done bra AGAIN;\n}" ::"r"(SMEM(&full)) : "memory");  // fault: deadlock
  y[i] = s[t];
  CLUSTER_SYNC();
}
