"""Sums of exponentials folded along with the maximum that their arguments are measured from, in one pass.

    m = amax x                                 m = amax x;  c = the greatest x so far
    s = sum (exp(a (x - m)) * g)          ->   s = sum (exp(a (x - c)) * g), times exp(a (c - c')) when c becomes c'

What the sum folds reads a running maximum in place of the whole row's, so both reductions stand in the same loops (the
online softmax of Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The two are one reduction
of several values, as a mean and a sum of squares are one (nvFuser, Welford reductions), whose parts are put together by

    (m1, s1), (m2, s2)  ->  M = max(m1, m2),  s1 * exp(a (m1 - M)) + s2 * exp(a (m2 - M))

`g` multiplies or divides the exponential, does not depend on m, and may be absent; `a` is a positive number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from compiler.dtypes import DType
from compiler.ir.domain import ScheduledFusion, computed_from
from compiler.ir.fusion import Literal
from compiler.ir.iter_domain import MemoryType
from compiler.ir.ops import OpKind
from compiler.ir.tensor import Running, TensorOp, unscheduled_like

LOWEST = {
    DType.F64: -1.7976931348623157e308,
    DType.F32: -3.4028234663852886e38,
    DType.BF16: -3.3895313892515355e38,
    DType.F16: -65504.0,
}
"""The least finite number (IEEE 754; bfloat16 is the upper half of binary32). A running maximum is at least this: the
exponential of -inf less it is 0, of -inf less -inf no number."""

_WIDENED = {
    (DType.BF16, DType.F32),
    (DType.F16, DType.F32),
    (DType.BF16, DType.F64),
    (DType.F16, DType.F64),
    (DType.F32, DType.F64),
}
"""Casts that are exact."""


@dataclass(frozen=True, slots=True)
class OnlineForm:
    """A sum that can be folded along with its maximum. `shift`: what is subtracted, made of the maximum by `shifting`,
    last operator first; `terms`: the operators from the difference to what is summed, in their order; `running`: how
    the fusion uses the maximum."""

    maximum: str
    total: str
    shift: str
    shifting: tuple[TensorOp, ...]
    terms: tuple[TensorOp, ...]
    running: Running


@dataclass(frozen=True, slots=True)
class NoOnlineForm:
    """Why a sum cannot be folded along with a maximum: the tensor that stands in the way, what was found of it, and
    what is expected."""

    tensor: str
    found: str
    expected: str


def online_form(sf: ScheduledFusion, maximum: str, total: str) -> OnlineForm | NoOnlineForm:
    """How the sum `total` is one of exponentials of what is folded less `maximum`, or why it is none."""
    top, sum_ = sf.producer(maximum), sf.producer(total)
    if top is None or top.kind is not OpKind.AMAX or not sf.tensor(maximum).dtype.is_float:
        return NoOnlineForm(maximum, str(top.kind) if top else "an input", "a maximum (amax) of floats")
    if sum_ is None or sum_.kind is not OpKind.SUM:
        return NoOnlineForm(total, str(sum_.kind) if sum_ else "an input", "a sum")
    folds = [tuple(a.is_reduction for a in sf.tensor(name).logical) for name in (maximum, total)]
    if folds[0] != folds[1]:
        return NoOnlineForm(total, "a fold of other dimensions", f"the dimensions that {maximum} folds")
    after = computed_from(sf.ops, maximum)
    terms = _terms(sf, after, sum_.tensor_inputs[0])
    if isinstance(terms, NoOnlineForm):
        return terms
    source, shift = terms[0].tensor_inputs
    if _before_widening(sf, source) != _before_widening(sf, top.tensor_inputs[0]):
        return NoOnlineForm(source, "other values", f"{top.tensor_inputs[0]}, of which {maximum} is the maximum")
    shifting = _shifting(sf, maximum, shift)
    if isinstance(shifting, NoOnlineForm):
        return shifting
    finite = any(op.kind is OpKind.MAXIMUM for op in shifting)
    return OnlineForm(maximum, total, shift, shifting, terms, Running.FINITE if finite else Running.RUNNING)


def online_sums(sf: ScheduledFusion) -> dict[str, tuple[str, ...]]:
    """By maximum: the sums that can be folded along with it, by one step."""
    found: dict[str, tuple[str, ...]] = {}
    for top in sf.ops:
        if top.kind is not OpKind.AMAX:
            continue
        forms = [online_form(sf, top.output, op.output) for op in sf.ops if op.kind is OpKind.SUM]
        able = [f for f in forms if isinstance(f, OnlineForm)]
        alike = [f.total for f in able if is_shifted_alike(sf, f, able[0])]
        if alike:
            found[top.output] = tuple(alike)
    return found


def is_shifted_alike(sf: ScheduledFusion, form: OnlineForm, other: OnlineForm) -> bool:
    """True if one running maximum serves two sums."""
    return form.running is other.running and sf.tensor(form.shift).dtype is sf.tensor(other.shift).dtype


def _terms(sf: ScheduledFusion, after: frozenset[str], summed: str) -> tuple[TensorOp, ...] | NoOnlineForm:
    """The operators from a difference to what is summed, where that is (exp(a (x - m)) g); `after`: what is computed
    from the maximum."""
    found: list[TensorOp] = []
    name, is_exponent = summed, False
    while True:
        op = sf.producer(name)
        if op is None or name not in after:
            return NoOnlineForm(name, "no use of the maximum", "an exponential of what is folded less the maximum")
        if sf.tensor(name).memory is not MemoryType.LOCAL:
            return NoOnlineForm(name, f"an output in {sf.tensor(name).memory} memory", "a tensor in registers")
        found.insert(0, op)
        dependent = [x for x in op.inputs if isinstance(x, str) and x in after]
        if is_exponent and op.kind is OpKind.SUB and all(isinstance(x, str) for x in op.inputs):
            source, shift = op.tensor_inputs
            if shift in after and source not in after:
                return tuple(found)
            return NoOnlineForm(name, "another difference", "what is folded less the maximum")
        if len(dependent) != 1:
            return NoOnlineForm(name, f"{op.kind} of several values that depend on the maximum", "one such value")
        if op.kind is OpKind.EXP and not is_exponent:
            is_exponent = True
        elif not _keeps_form(sf, op, dependent[0], is_exponent=is_exponent):
            where = "a positive number times a difference" if is_exponent else "an exponential, times what does not"
            return NoOnlineForm(name, str(op.kind), where)
        name = dependent[0]


def _keeps_form(sf: ScheduledFusion, op: TensorOp, dependent: str, *, is_exponent: bool) -> bool:
    """True for a factor, a quotient or a cast between floats; in an exponent factors are positive numbers."""
    if op.kind is OpKind.CAST:
        return sf.tensor(dependent).dtype.is_float and sf.tensor(op.output).dtype.is_float
    if op.kind is not OpKind.MUL and not (op.kind is OpKind.DIV and op.inputs[0] == dependent):
        return False
    others = [x for x in op.inputs if x != dependent]
    return not is_exponent or all(isinstance(x, Literal) and 0 < x.value < float("inf") for x in others)


def _shifting(sf: ScheduledFusion, maximum: str, shift: str) -> tuple[TensorOp, ...] | NoOnlineForm:
    """The operators, last first, that make the shift of the maximum: a broadcast, casts that are exact, and at most a
    bound that keeps it finite."""
    found: list[TensorOp] = []
    name = shift
    while name != maximum:
        op = sf.producer(name)
        assert op is not None, "it is computed from the maximum"
        match op.kind:
            case OpKind.BROADCAST_TO:
                is_right = True
            case OpKind.CAST:
                is_right = (sf.tensor(op.tensor_inputs[0]).dtype, sf.tensor(name).dtype) in _WIDENED
            case OpKind.MAXIMUM:
                numbers = [x.value for x in op.inputs if isinstance(x, Literal)]
                is_right = len(numbers) == 1 and -float("inf") < numbers[0] <= LOWEST[sf.tensor(name).dtype]
            case _:
                is_right = False
        if not is_right:
            return NoOnlineForm(name, str(op.kind), f"{maximum} as it is, broadcast")
        found.append(op)
        name = op.tensor_inputs[0]
    if sum(op.kind is OpKind.BROADCAST_TO for op in found) != 1:
        return NoOnlineForm(shift, "no broadcast", f"{maximum}, broadcast along what it folds")
    return tuple(found)


def _before_widening(sf: ScheduledFusion, name: str) -> str:
    """The tensor whose values these are, in a narrower type: copies and exact casts keep them."""
    op = sf.producer(name)
    while op is not None and op.kind in (OpKind.CAST, OpKind.COPY):
        source = op.tensor_inputs[0]
        if op.kind is OpKind.CAST and (sf.tensor(source).dtype, sf.tensor(name).dtype) not in _WIDENED:
            break
        name = source
        op = sf.producer(name)
    return name


def fold_online(sf: ScheduledFusion, maximum: str, totals: tuple[str, ...]) -> ScheduledFusion:
    """The fusion in which these sums are folded along with the maximum; they have that form (`online_form`).

    What others read of the terms stays as it is; the sums get copies of those, named with `_o` at the end. What
    nothing reads any more is gone.
    """
    forms = [form for t in totals if isinstance(form := online_form(sf, maximum, t), OnlineForm)]
    assert len(forms) == len(totals), "a step is refused where a sum has not the form"
    running = f"{maximum}_running"
    mine = {op.output for form in forms for op in form.terms}
    shared: dict[str, str] = {}
    for op in reversed(sf.ops):
        readers = [r.output for r in sf.consumers(op.output)]
        if op.output in mine and any(r in shared or r not in (*mine, *totals) for r in readers):
            shared[op.output] = f"{op.output}_o"
    shifts = {form.terms[0].output: form.shift for form in forms}
    ops: list[TensorOp] = []
    tensors = {t.name: t for t in sf.tensors}
    for op in sf.ops:
        if op.output in shared:
            ops.append(op)
            tensors[shared[op.output]] = unscheduled_like(tensors[op.output], shared[op.output], MemoryType.LOCAL)
        if op.output in mine or op.output in totals:
            own = {shifts[op.output]: running} if op.output in shifts else {}
            inputs = tuple(own.get(x) or shared.get(x, x) if isinstance(x, str) else x for x in op.inputs)
            op = replace(op, inputs=inputs, output=shared.get(op.output, op.output))
        ops.append(op)
        if op.output == maximum:
            (spread,) = (x for x in forms[0].shifting if x.kind is OpKind.BROADCAST_TO)
            ops.append(replace(spread, inputs=(maximum,), output=running, running=forms[0].running))
            tensors[running] = unscheduled_like(tensors[forms[0].shift], running, MemoryType.LOCAL)
    made = replace(sf, tensors=tuple(tensors.values()), ops=tuple(ops))
    return _without_unread(made, {op.output for form in forms for op in form.shifting})


def _without_unread(sf: ScheduledFusion, candidates: set[str]) -> ScheduledFusion:
    """The fusion without those of the candidates that nothing reads."""
    ops = list(sf.ops)
    for op in reversed(sf.ops):
        if op.output in candidates and not any(op.output in other.inputs for other in ops):
            ops.remove(op)
    gone = candidates - {op.output for op in ops}
    return replace(sf, tensors=tuple(t for t in sf.tensors if t.name not in gone), ops=tuple(ops))
