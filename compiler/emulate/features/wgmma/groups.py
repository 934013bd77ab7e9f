"""The groups of products that warps commit and wait for (PTX ISA, "wgmma.commit_group", "wgmma.wait_group")."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from compiler.emulate.features.wgmma.operation import WarpgroupProduct
from compiler.emulate.machine import Engine, Machine
from compiler.emulate.product_registers import WARPS_OF_GROUP, ProductRegisters
from compiler.emulate.report import FaultKind
from compiler.emulate.threads import WARP, Lanes


class ProductGroups(Engine):
    """By warp: the products that it has issued and not committed, and its groups that it has not waited for."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self._open: defaultdict[int, list[WarpgroupProduct]] = defaultdict(list)
        self._groups: defaultdict[int, list[list[WarpgroupProduct]]] = defaultdict(list)

    def issue(self, operation: WarpgroupProduct) -> None:
        """A warpgroup has issued a product."""
        first = operation.lane // WARP
        for warp in range(first, first + WARPS_OF_GROUP):
            self._open[warp].append(operation)
        self.machine.asynchrony.submit(operation)

    def commit(self, lanes: Lanes) -> None:
        """Whole warps execute wgmma.commit_group."""
        for warp in np.unique(lanes // WARP).tolist():
            self._groups[warp].append(self._open.pop(warp, []))

    def are_done(self, lanes: Lanes, pending: int) -> npt.NDArray[np.bool_]:
        """Of each lane's warp, whether at most `pending` of its newest groups are not complete."""
        warps, index = np.unique(lanes // WARP, return_inverse=True)
        done = [all(o.is_done for group in self._older(warp, pending) for o in group) for warp in warps.tolist()]
        found: npt.NDArray[np.bool_] = np.array(done, np.bool_)[index]
        return found

    def waited(self, lanes: Lanes, pending: int) -> None:
        """Whole warps have waited for all of their groups but the `pending` newest."""
        registers = self.machine.engine(ProductRegisters)
        alike: dict[tuple[int, ...], tuple[list[int], list[WarpgroupProduct]]] = {}
        for warp in np.unique(lanes // WARP).tolist():
            older = self._older(warp, pending)
            operations = [o for group in older for o in group]
            del self._groups[warp][: len(older)]
            for operation in operations:
                operation.waited[warp - registers.first_warp[registers.group_of_warp[warp]]] = True
            alike.setdefault(tuple(map(id, operations)), ([], operations))[0].append(warp)
        if not self.machine.options.races:
            return
        for warps, operations in alike.values():
            tokens = [o.token for o in operations if o.token is not None]
            if tokens:
                all_lanes = (np.array(warps)[:, None] * WARP + np.arange(WARP)).ravel()
                self.machine.order.acquire(all_lanes, self.machine.order.join(tokens))

    def _older(self, warp: int, pending: int) -> list[list[WarpgroupProduct]]:
        groups = self._groups.get(warp, [])
        return groups[: max(0, len(groups) - pending)]

    def block_ended(self, slot: int) -> None:
        """Reports products that nobody waited for: they may still read shared memory."""
        warps = self.machine.threads.pitch // WARP
        reported: set[int] = set()
        for warp in range(slot * warps, (slot + 1) * warps):
            left = [*(o for group in self._groups.pop(warp, []) for o in group), *self._open.pop(warp, [])]
            for operation in left:
                if id(operation) not in reported:
                    reported.add(id(operation))
                    self.machine.fault(
                        FaultKind.IN_FLIGHT_AT_EXIT,
                        operation.insn,
                        "The block ends while this product may be under way: a warp did not wait for it. Execute "
                        "wgmma.commit_group after it, and wgmma.wait_group 0 before the end.",
                        lane=operation.lane,
                        tensor="registers",
                    )
