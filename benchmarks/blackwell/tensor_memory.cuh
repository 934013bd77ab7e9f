// Tensor memory, after benchmarks/emulate/device.cuh: what surrounds the instruction that a question is about.
#define ALLOC(p, columns) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(SMEM(&p)), "r"(columns) : "memory")
#define FREE(address, columns) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns) : "memory")
#define WAIT_ST() asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory")
#define WAIT_LD() asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
#define BEFORE() asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory")
#define AFTER() asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory")
#define COMMIT(bar) asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(SMEM(&bar)) : "memory")
