"""Hardware beside the threads: copy engines, mbarriers, tensor memory, asynchronous groups."""
