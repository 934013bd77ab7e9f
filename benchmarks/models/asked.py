"""Which kernels the regions of models ask for, as a file: traced with tensors that hold nothing, so at any size.

python -m benchmarks.models.asked --models llama,dit,convnext --out build/models/asked.json

Without a card torch cannot say which attention it would take there: flash attention is assumed. Backward graphs of a
CUDA device are traced with a card alone; elsewhere `--device cpu` traces them, layer norms as a card has them. Use the
card's version of torch: another one may take operators apart otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional

from benchmarks.models.catalogue import MODELS, Model, Setting
from benchmarks.models.tuning import AskedRegion, FolderSource, write_asked
from fusetune.torch_compile import CompileBackend
from fusetune.torch_compile.inside.compiling import look
from fusetune.torch_compile.inside.norms import norms_of_a_card
from fusetune.torch_compile.inside.passes import Looking, Proposer
from fusetune.torch_compile.inside.regions import PortableRegion
from fusetune.torch_compile.inside.traced import TracedGraph
from fusetune.torch_compile.options import CompileOptions


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the regions of all models, each once, the heaviest first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="llama,dit,convnext")
    parser.add_argument("--training", action="store_true", help="forward and backward, in place of inference")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--layers", type=int, help="of a model that is several, BERT")
    parser.add_argument("--device", default="cuda:0" if torch.version.cuda else "cpu")
    parser.add_argument("--out", type=Path, default=Path("build/models/asked.json"))
    given = parser.parse_args(arguments)
    asked: dict[Any, AskedRegion] = {}
    for name in given.models.split(","):
        for one in asked_by(
            MODELS[name],
            Setting(torch.device(given.device), layers=given.layers),
            given.training,
            given.engines.split(","),
        ):
            before = asked.get(one.key)
            asked[one.key] = one if before is None else before.with_more(one)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    write_asked(given.out, list(asked.values()))
    print(f"{len(asked)} distinct regions in {given.out}")


ENGINES = ("eager", "inductor")


def asked_by(model: Model, setting: Setting, is_training: bool, engines: Sequence[str] = ENGINES) -> list[AskedRegion]:
    """What the model's regions ask for, beside eager and inside Inductor."""
    source = FolderSource(None)
    backend = CompileBackend(source)
    with _attention_of_a_card():
        if "eager" in engines:
            _traced(model, setting, backend, is_training, engine="eager")
        inside = RegionsInside(backend)
        if "inductor" in engines:
            with contextlib.suppress(_Enough), norms_of_a_card():
                _traced(model, setting, inside, is_training)
    for region in inside.regions:
        source.request(region.fusion, region.binding, weight=float(region.moved_bytes))
    return list(source.asked.values())


class _Enough(Exception):
    """Regions inside Inductor are known without running anything."""


class RegionsInside:
    """A backend that looks at a graph's regions inside Inductor."""

    def __init__(self, backend: CompileBackend) -> None:
        self.backend = backend
        self.regions: list[PortableRegion] = []

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        looking = Looking(Proposer(self.backend.lower, CompileOptions().least_bytes))
        look(TracedGraph(gm), example_inputs, {}, looking)
        self.regions += [said for _, _, said in looking.found if isinstance(said, PortableRegion)]

        def enough(*args: Any) -> Any:
            raise _Enough

        return enough


def _traced(model: Model, setting: Setting, backend: Any, is_training: bool, **options: Any) -> None:
    torch._dynamo.reset()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.set_grad_enabled(is_training):
        module, inputs = model.make(setting)
        given = [x.requires_grad_() if is_training and x.is_floating_point() else x for x in inputs]
        # Named: what runs by itself on a card is Inductor's code, which would take the tensors' addresses for true.
        out = torch.compile(module, backend=backend, options=options or None)(*given)
        if is_training:
            out.float().square().mean().backward()


@contextlib.contextmanager
def _attention_of_a_card() -> Iterator[None]:
    usual = functional.scaled_dot_product_attention
    if not torch.cuda.is_available():
        functional.scaled_dot_product_attention = _flash_attention  # type: ignore[assignment]  # a builtin in the stubs
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = usual


def _flash_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_causal: bool = False, enable_gqa: bool = False
) -> torch.Tensor:
    flash = torch.ops.aten._scaled_dot_product_flash_attention.default
    found: torch.Tensor = flash(query, key, value, 0.0, is_causal, False)[0]
    return found


if __name__ == "__main__":
    main()
