"""Calls of a kernel over lists: the tables that its launches get, what comes back, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
import torch

import fusetune.torch
from fusetune.errors import WrongArguments
from fusetune.kernel import Kernel
from fusetune.launch.params import Numbers
from fusetune.wire.artifact import LaunchSpec, ListArg
from fusetune.wire.lists import LIST_ELEMS, ListRow
from tests.sdk.test_torch_calls import on_the_host, spec
from tests.sdk.test_torch_kernel import artifact

__all__ = ["on_the_host"]

LISTS = ListArg(positions=(0, 1, 4), rows=91, tile=1024, step=4)


class RecordedLists:
    """Stands in for `Launcher`: keeps the rows of every call."""

    calls: list[tuple[list[ListRow], dict[int, int]]]
    again: ClassVar[list[object]] = []

    def __init__(self, *_: Any) -> None:
        pass

    def tables(self, rows: Sequence[ListRow], pointers: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
        return (tuple(row.elems for row in rows),)

    def launch_tables(self, tables: tuple[tuple[int, ...], ...], stream: int) -> None:
        RecordedLists.again.append(tables)

    def launch_lists(self, rows: Sequence[ListRow], pointers: Mapping[int, int], stream: int, numbers: Numbers) -> None:
        RecordedLists.calls.append((list(rows), dict(pointers)))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """(xs, ys, rate) -> (into xs, new)."""
    RecordedLists.calls = []
    monkeypatch.setattr(fusetune.torch, "Launcher", RecordedLists)
    monkeypatch.setattr(fusetune.torch, "_stream_of", lambda index: 7)
    monkeypatch.setattr(fusetune.torch, "_one_cuda_device", lambda tensors: torch.device("cpu"))
    one = spec("f32", LIST_ELEMS)
    launch = LaunchSpec(entry="fused", grid=(1, 1, 1), block=(32, 1, 1), args=(LISTS,))
    return Kernel(
        artifact(
            inputs=(one, one, spec("f32")),
            outputs=(one.model_copy(update={"alias": 0}), one),
            launches=(launch,),
        )
    )


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.ones(shape) for shape in shapes]


def test_lists_come_back_and_the_empty_are_passed_by(kernel: Kernel) -> None:
    shapes = ((3, 5), (), (0, 7), (1000,))
    xs, ys, rate = tensors(*shapes), tensors(*shapes), torch.ones(())
    before = [x._version for x in xs]
    found: Any = kernel(xs, ys, rate)
    changed, new = found
    assert all(mine is given for mine, given in zip(changed, xs, strict=True))
    assert [tuple(x.shape) for x in new] == list(shapes)
    assert all(x._version > n for x, n in zip(xs, before, strict=True))
    ((rows, beside),) = RecordedLists.calls
    assert [row.elems for row in rows] == [15, 1, 1000]
    places = [0, 1, 3]
    assert [row.addresses for row in rows] == [tuple(x[n].data_ptr() for x in (xs, ys, new)) for n in places]
    assert beside == {2: rate.data_ptr()}


def test_tensors_that_lie_alike_have_any_order_of_dimensions(kernel: Kernel) -> None:
    xs, ys = [torch.ones(4, 6).t()], [torch.ones(4, 6).t()]
    found: Any = kernel(xs, ys, torch.ones(()))
    assert found[1][0].stride() == (1, 6)
    with pytest.raises(WrongArguments, match=r"input 1\[0\]: found shape \(6, 4\), strides \(4, 1\)"):
        kernel(xs, [torch.ones(6, 4)], torch.ones(()))


@pytest.mark.parametrize(
    ("xs", "ys", "match"),
    [
        (torch.ones(4), tensors((4,)), "input 0: found Tensor, expected a list of tensors"),
        (tensors((4,)), tensors((4,), (4,)), "input 1: found 2 tensors, expected 1"),
        (tensors((4,)), tensors((5,)), r"input 1\[0\]"),
        (tensors((4,)), [torch.ones(4).half()], r"input 1\[0\]: found torch.float16"),
        ([torch.ones(8)[::2]], tensors((4,)), r"input 0\[0\]: found strides \(2,\), expected a dense tensor"),
    ],
)
def test_lists_that_do_not_fit_are_refused(kernel: Kernel, xs: Any, ys: Any, match: str) -> None:
    with pytest.raises(WrongArguments, match=match):
        kernel(xs, ys, torch.ones(()))


@pytest.fixture
def stepped(kernel: Kernel) -> Kernel:
    """(xs, ys, steps) -> into xs: the third list has one element beside each tensor of the others."""
    one = spec("f32", LIST_ELEMS)
    args = (ListArg(positions=(2, 0, 1), rows=91, tile=1024, step=4, single=(2,)),)
    launch = LaunchSpec(entry="fused", grid=(1, 1, 1), block=(32, 1, 1), args=args)
    into = one.model_copy(update={"alias": 0})
    return Kernel(artifact(inputs=(one, one, spec("f32")), outputs=(into,), launches=(launch,)))


def test_single_elements_go_with_their_tensors(stepped: Kernel) -> None:
    shapes = ((3, 5), (0, 7), ())
    xs, ys, steps = tensors(*shapes), tensors(*shapes), tensors((), (), ())
    stepped(xs, ys, steps)
    ((rows, beside),) = RecordedLists.calls
    assert [row.addresses for row in rows] == [tuple(x[n].data_ptr() for x in (steps, xs, ys)) for n in (0, 2)]
    assert not beside


def test_a_call_that_comes_again_has_its_tables(stepped: Kernel) -> None:
    """In place, at the same addresses: else nothing is done, and the whole call is to be made."""
    xs, ys, steps = tensors((3, 5), (7,)), tensors((3, 5), (7,)), tensors((), ())
    stepped(xs, ys, steps)
    known, before = stepped.known_lists, xs[1]._version
    assert known is not None
    RecordedLists.again.clear()
    found = known([xs, ys, steps])
    assert found is not None
    assert all(mine is given for mine, given in zip(found, xs, strict=True))
    assert RecordedLists.again == [((15, 7),)]
    assert xs[1]._version > before
    assert known([xs, [y.clone() for y in ys], steps]) is None
    assert len(RecordedLists.calls) == len(RecordedLists.again) == 1


def test_a_call_with_new_results_never_comes_again(kernel: Kernel) -> None:
    kernel(tensors((3,)), tensors((3,)), torch.ones(()))
    assert kernel.known_lists is None


@pytest.mark.parametrize(
    ("steps", "match"),
    [
        (tensors((), ()), "input 2: found 2 tensors, expected 1"),
        (torch.ones(()), "input 2: found Tensor, expected a list of tensors"),
        (tensors((1,)), r"input 2\[0\]: found shape \(1,\), expected \(\)"),
    ],
)
def test_single_elements_that_do_not_fit_are_refused(stepped: Kernel, steps: Any, match: str) -> None:
    with pytest.raises(WrongArguments, match=match):
        stepped(tensors((4,)), tensors((4,)), steps)


def test_what_is_written_is_nobody_elses_memory(kernel: Kernel) -> None:
    x, y, rate = torch.ones(8), torch.ones(8), torch.ones(())
    kernel([x[:4]], [y[:4]], rate)
    kernel([x[:4], x[4:]], [y[:4], y[:4]], rate)
    for xs, ys in (([x, x], [y, y]), ([x], [x]), ([x[:5], x[4:]], [y[:5], y[4:]])):
        with pytest.raises(WrongArguments, match="memory shared with another tensor"):
            kernel(xs, ys, rate)
