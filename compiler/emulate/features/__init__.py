"""What kernels can do, a folder a feature: its instructions, bound to operands before the run, and the hardware beside
the threads that they share. Importing this package registers the instructions."""

# ruff: noqa: F401 - what they are imported for is that they register

import compiler.emulate.features.access.address
import compiler.emulate.features.access.atomics
import compiler.emulate.features.access.load_store
import compiler.emulate.features.access.zero_fill
import compiler.emulate.features.barrier.instructions
import compiler.emulate.features.bulk.async_store
import compiler.emulate.features.bulk.instructions
import compiler.emulate.features.cluster.instructions
import compiler.emulate.features.cp_async.instructions
import compiler.emulate.features.fence
import compiler.emulate.features.lanes.arithmetic
import compiler.emulate.features.lanes.calls
import compiler.emulate.features.lanes.carry
import compiler.emulate.features.lanes.compare
import compiler.emulate.features.lanes.convert
import compiler.emulate.features.lanes.floating
import compiler.emulate.features.lanes.logic
import compiler.emulate.features.lanes.move
import compiler.emulate.features.lanes.thread
import compiler.emulate.features.mbarrier.instructions
import compiler.emulate.features.mma.sync
import compiler.emulate.features.tma.instructions
import compiler.emulate.features.tma.map_instructions
import compiler.emulate.features.tmem.allocation
import compiler.emulate.features.tmem.products
import compiler.emulate.features.tmem.register_moves
import compiler.emulate.features.tmem.tile_copies
import compiler.emulate.features.warp.instructions
import compiler.emulate.features.warp.matrix
import compiler.emulate.features.warp.register_counts
import compiler.emulate.features.warp.shuffle
import compiler.emulate.features.wgmma.instructions
