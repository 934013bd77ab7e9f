"""Kernels over lists of tensors, in the emulator: many tensors in one launch, of any lengths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from compiler.emulate.launch import Completion
from compiler.emulate.ptx.parser import parse
from compiler.emulate.run import emulate
from compiler.emulated_runs.launching import launches_of, tensors_of
from compiler.errors import Unsupported
from compiler.ir.fusion import Fusion
from compiler.nvrtc import CompilePool
from compiler.pipeline import artifact, lowered
from compiler.schedule.trace import ProgramTrace, ScheduleTrace
from compiler.wire import bind
from compiler.wire.fusions import fusion_from_json, fusion_to_json
from fusetune import FusionBuilder
from fusetune.wire.binding import Binding, InputBinding
from search.proof.emulated.running import fault_of, options
from search.proof.verify.arrays import NumpyArrays
from tests.search.proof.emulated.kernels import CARD, kernels_of, proven

ARRAYS = NumpyArrays()
ELEMS = 1 << 14


def adamw(elems: int | None = None) -> Fusion:
    """Parameters and moments in place; the rate is a tensor of one element."""
    f = FusionBuilder()
    p, g, m, v = (f.input(name, ("N",), "f32", is_list=True) for name in "pgmv")
    rate = f.input("rate", (), "f32").broadcast_to(p.shape, dims=())
    m1 = m + (g - m) * 0.1
    v1 = v * 0.999 + g * g * 0.001
    f.output(p * 0.999 - rate * m1 / (f.sqrt(v1) + 1e-8), "p1", alias=p)
    f.output(m1, "m1", alias=m)
    f.output(v1, "v1", alias=v)
    return bind(f.build(), Binding(sizes={} if elems is None else {"N": elems}))


def halved(elems: int, align: int = 16) -> Fusion:
    """Lists of two types; what is made is new."""
    f = FusionBuilder()
    x = f.input("x", ("N",), "f32", is_list=True)
    f.output((x * 0.5).cast("bf16"))
    return bind(f.build(), Binding(sizes={"N": elems}, inputs=(InputBinding.model_validate({"align": align}),)))


def test_kernels_are_right_of_any_size(pool: CompilePool) -> None:
    """Tuned at the size that stands for any, proven at a smaller one, whose tensors are taken apart into lists."""
    for made in kernels_of(adamw(), 4, count=2):
        compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
        assert compiled.lists is not None
        assert compiled.lists.positions == (0, 1, 2, 3)
        proof = proven(made, pool)
        assert proof.verdict == "right", (proof.fault, proof.undone)


@pytest.mark.parametrize("align", [16, 4])
def test_tensors_end_anywhere(align: int, pool: CompilePool) -> None:
    """What lies between the parts of a list, and behind the last, is nobody's and stays."""
    fusion = halved(ELEMS, align)
    for made in kernels_of(fusion, 2, count=3):
        compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
        assert compiled.lists is not None
        tile, step = compiled.lists.tile, max(compiled.lists.step, 8)
        parts, start = [], 0
        for elems in (1, step - 1, tile + 3, 7, tile, 2 * tile - 1, 5):
            if start + elems <= ELEMS:
                parts.append((start, elems))
                start = -(-(start + elems) // step) * step
        x = np.random.default_rng(1).standard_normal(ELEMS).astype(np.float32)
        tensors = tensors_of(fusion, [x.view(np.uint8).copy()])
        (launch,) = launches_of(compiled, tensors, parts)
        outcome = emulate(parse(compiled.ptx), launch, options(Completion.RANDOM, races=True))
        assert not fault_of(outcome)
        inside = np.zeros(ELEMS, np.bool_)
        for first, elems in parts:
            inside[first : first + elems] = True
        (name,) = fusion.outputs
        assert np.array_equal(outcome.written[name].view(np.uint16) > 0, inside)
        found = ARRAYS.reinterpret(tensors[-1].data, fusion.value(name).dtype)
        assert np.array_equal(found[inside], ARRAYS.store(x * np.float32(0.5), fusion.value(name).dtype)[inside])


def adamw_of_steps(elems: int) -> Fusion:
    """As torch's, where every parameter has a step of its own; the bias corrections are computed in the kernel."""
    f = FusionBuilder()
    step = f.input("step", (), "f32", is_list=True)
    p, g, m, v = (f.input(name, ("N",), "f32", is_list=True) for name in "pgmv")
    rate = f.input("rate", (), "f32")
    m1 = m + (g - m) * 0.1
    v1 = v * 0.999 + g * g * 0.001
    size = (rate / (1.0 - f.pow(0.9, step))).broadcast_to(p.shape, dims=())
    correction = f.sqrt(1.0 - f.pow(0.999, step)).broadcast_to(p.shape, dims=())
    decayed = p - p * (rate * 0.01).broadcast_to(p.shape, dims=())
    f.output(decayed - size * m1 / (f.sqrt(v1) / correction + 1e-8), "p1", alias=p)
    f.output(m1, "m1", alias=m)
    f.output(v1, "v1", alias=v)
    return bind(f.build(), Binding(sizes={"N": elems}))


def test_each_tensor_has_a_step_of_its_own(pool: CompilePool) -> None:
    """Against torch's optimizer, whose parameters have come along differently far."""
    fusion = adamw_of_steps(ELEMS)
    assert fusion_from_json(fusion_to_json(fusion)) == fusion
    made = next(kernels_of(fusion, 2))
    assert proven(made, pool).verdict == "right"
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert compiled.lists is not None
    assert compiled.lists.single == (0,)
    parts, start = [], 0
    for elems in (1, 7, compiled.lists.tile + 3, compiled.lists.tile):
        parts.append((start, elems))
        start += -(-elems // 8) * 8
    steps = [1.0, 2.0, 30.0, 4000.0]
    random = np.random.default_rng(3)
    p, g, m, v = (random.standard_normal(ELEMS).astype(np.float32) for _ in range(4))
    v *= v
    inputs = [np.array(steps, np.float32), p, g, m, v, np.array([1e-3], np.float32)]
    tensors = tensors_of(fusion, [x.view(np.uint8).copy() for x in inputs])
    (launch,) = launches_of(compiled, tensors, parts)
    outcome = emulate(parse(compiled.ptx), launch, options(Completion.RANDOM, races=True))
    assert not fault_of(outcome)
    found = [tensors[position].data.view(np.float32) for position in (1, 3, 4)]
    for (first, elems), step in zip(parts, steps, strict=True):
        place = slice(first, first + elems)
        param, moment, square = (torch.from_numpy(x[place].copy()) for x in (p, m, v))
        param.grad = torch.from_numpy(g[place].copy())
        optimizer = torch.optim.AdamW([param], lr=1e-3, weight_decay=0.01, foreach=True)
        optimizer.state[param] = {"step": torch.tensor(step - 1), "exp_avg": moment, "exp_avg_sq": square}
        optimizer.step()
        for have, want in zip(found, (param, moment, square), strict=True):
            np.testing.assert_allclose(have[place], want.numpy(), rtol=2e-5, atol=1e-6)


def test_single_elements_have_a_slot_and_no_place_in_the_chunk() -> None:
    made = next(kernels_of(adamw_of_steps(ELEMS), 2))
    assert made.kernel.table is not None
    name = made.trace.fusion.inputs[0]
    assert f"lists.address[{dict(made.kernel.table.pointers)[name]}]" in made.source
    assert (
        sum("[row]) + done;" in line for line in made.source.splitlines())
        == sum("lists.address" in line for line in made.source.splitlines()) - 1
    )


def test_a_launch_takes_as_many_tensors_as_its_parameters_have_room_for(pool: CompilePool) -> None:
    made = next(kernels_of(halved(ELEMS), 2))
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert compiled.lists is not None
    rows = compiled.lists.rows
    assert rows > 100
    fusion = made.trace.fusion
    x = np.arange(ELEMS, dtype=np.float32)
    tensors = tensors_of(fusion, [x.view(np.uint8).copy()])
    (launch,) = launches_of(compiled, tensors, [(32 * n, 9) for n in range(rows)])
    outcome = emulate(parse(compiled.ptx), launch, options(Completion.EAGER, races=False))
    assert not fault_of(outcome)
    written = outcome.written[fusion.outputs[0]].view(np.uint16) > 0
    assert written.sum() == 9 * rows


def test_a_list_that_is_written_and_not_read_has_a_slot(pool: CompilePool) -> None:
    f = FusionBuilder()
    x, y, _ = (f.input(name, ("N",), "f32", is_list=True) for name in ("x", "y", "unread"))
    f.output(x * 2.0, alias=y)
    made = next(kernels_of(bind(f.build(), Binding(sizes={"N": ELEMS})), 2))
    compiled = artifact(made, pool.submit(made.source, made.arch.name).result())
    assert compiled.lists is not None
    assert compiled.lists.positions == (0, 3)
    proof = proven(made, pool)
    assert proof.verdict == "right", (proof.fault, proof.undone)


def test_what_is_not_of_each_element_is_refused_by_name() -> None:
    f = FusionBuilder()
    x = f.input("x", ("N",), "f32", is_list=True)
    f.output(x - f.sum(x, dims=(0,)).broadcast_to(x.shape, dims=()))
    with pytest.raises(Unsupported, match="operator sum over lists"):
        bind(f.build(), Binding())


def test_lists_are_one_launch() -> None:
    made = next(kernels_of(halved(ELEMS), 2))
    assert isinstance(made.trace, ScheduleTrace)
    program = ProgramTrace(made.trace.fusion, ())
    with pytest.raises(Unsupported, match="over lists in several launches"):
        lowered(program, CARD.arch)
    plain = replace(made.trace.fusion, is_list=False)
    assert lowered(replace(made.trace, fusion=plain), CARD.arch)[0].kernel.table is None
