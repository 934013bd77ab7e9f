"""Whether an implementation does what its case says: in place or not, over lists, with random numbers of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.kernels.cases import Case, Implementation, Tensors, fresh
from benchmarks.kernels.reference import Agreement, compare, reference

SIGMAS = 5.0
"""The share of kept elements may be so many standard deviations from what it should be."""


class Judge:
    """Holds implementations of a case against its op list, on one set of inputs."""

    def __init__(self, case: Case, inputs: Tensors) -> None:
        self.case = case
        self.inputs = inputs
        self._expected: Sequence[torch.Tensor] | None = None

    def agreement(self, call: Implementation, *, draws_ours: bool) -> Agreement:
        """What `call` makes of the inputs, of which it gets a copy where it changes them.

        `draws_ours`: its random numbers are those of `rand`; of others the rate and what comes of it are judged.
        """
        outputs = call(*fresh(self.case, self.inputs))
        if "tensors" in self.case:
            return self._over_lists(outputs)
        if "keeps" in self.case and not draws_ours:
            return self._drawn(outputs)
        if self._expected is None:
            self._expected = reference(self.case, self.inputs)
        return compare(self.case, outputs, self._expected)

    def _over_lists(self, outputs: Tensors) -> Agreement:
        """Tensor by tensor: f64 copies of all of them would not fit."""
        worst = Agreement(0.0, 0.0)
        for n, _ in enumerate(self.case["tensors"]):
            inputs = [x[n] if isinstance(x, list) else x for x in self.inputs]
            found = compare(self.case, [out[n] for out in outputs], reference(self.case, inputs))
            if not found.ok:
                return Agreement(found.rel_l2, found.rel_max, f"tensor {n}: {found.why}")
            worst = Agreement(max(worst.rel_l2, found.rel_l2), max(worst.rel_max, found.rel_max))
        return worst

    def _drawn(self, outputs: Tensors) -> Agreement:
        """Which elements were kept is read off the outputs; all else has to follow from it."""
        keeps = self.case["keeps"]
        names = [spec["name"] for spec in (*self.case["inputs"], *self.case["outputs"])]
        scope: dict[str, Any] = {**dict(zip(names, (*self.inputs, *outputs), strict=True)), "torch": torch}
        kept, told_apart = (eval(keeps[part], scope) for part in ("kept", "told_apart"))
        share, count = float(kept[told_apart].double().mean()), int(told_apart.sum())
        wanted = float(keeps["share"])
        if abs(share - wanted) > SIGMAS * math.sqrt(wanted * (1 - wanted) / count):
            return Agreement(math.inf, math.inf, f"{share:.4f} of the elements are kept, expected {wanted:.4f}")
        return compare(self.case, outputs, reference(self.case, self.inputs, {keeps["of"]: kept.double()}))
