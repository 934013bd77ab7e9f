"""Which bits an elementwise value has, settled on the fusion before anything is scheduled or cut into launches.

The law: an elementwise value is one function of its operands' bits, alike in every copy, pass, halo, tail, vector width
and launch (docs/contracts.md, "Bits"). So each operator has one form, and everything that is made of the fusion keeps
it:

- Operators that say the same of the same operands are one operator.
- A product becomes part of a sum (`fma`, rounded once: IEEE 754-2019, 5.4.1) where that sum is all that reads it and it
  is no output. Products of 16 bits are values, rounded like any other, and stay.
- A product that a sum folds along dimensions, and that nothing else reads, is a term and no value: `Op.is_term`.
- A function has a coarsest form that it may take, `Op.grade`. Nothing that decides, a comparison, a cast to integers or
  a rounding to one, depends on an approximate function: there the least error is a wrong answer. Forms that suffice for
  16 bits are only for what is rounded to 16 bits before anything is summed, compared or stored.

`graded` chooses how exact the functions are, which is one choice for the whole fusion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from compiler.dtypes import FP8, DType
from compiler.ir.fusion import Fusion, Literal, Op, Operand, Scalar, Value, dense_strides
from compiler.ir.ops import COMPARE, CONTRACTIONS, FOLDS, PRODUCTS, ROUNDING_FOLDS, SCANS, SUMS, MathGrade, OpKind

GRADES = tuple(MathGrade)
"""The more exact ones first."""

_FUSED_IN = frozenset({DType.F32, DType.F64})
_SHORT = FP8 | {DType.F16, DType.BF16}


@lru_cache(maxsize=256)
def pinned(fusion: Fusion) -> Fusion:
    """The fusion with one form for every operator: itself where it has that already. Fingerprint and binding stay."""
    if fusion.is_pinned:
        return fusion
    ops = _limited(fusion, _with_terms(fusion, _contracted(fusion, _merged(fusion))))
    return _renumbered(replace(fusion, ops=ops, is_pinned=True))


def graded(fusion: Fusion, grade: MathGrade) -> Fusion:
    """A pinned fusion whose functions are computed in this grade, or in the coarsest one that each may take."""
    ops = tuple(replace(op, grade=min(op.grade, grade, key=GRADES.index)) for op in fusion.ops)
    return fusion if ops == fusion.ops else replace(fusion, ops=ops)


def formed_like(fusion: Fusion, other: Fusion) -> Fusion | None:
    """The fusion pinned, its functions computed as those of `other`, which was pinned once; None where that is another
    graph."""
    made = pinned(fusion)
    if [(op.kind, op.inputs, op.output) for op in made.ops] != [(op.kind, op.inputs, op.output) for op in other.ops]:
        return None
    return replace(made, ops=tuple(replace(op, grade=as_.grade) for op, as_ in zip(made.ops, other.ops, strict=True)))


def grades_of(fusion: Fusion) -> tuple[MathGrade, ...]:
    """The grades that give different kernels of the fusion, the most exact one first."""
    found = {op.grade for op in pinned(fusion).ops}
    return tuple(grade for grade in GRADES if grade is MathGrade.EXACT or grade in found)


def _merged(fusion: Fusion) -> tuple[Op, ...]:
    """Every operator once; two outputs stay two."""
    names: dict[str, str] = {}
    known: dict[tuple[object, ...], str] = {}
    ops: list[Op] = []
    for op in fusion.ops:
        own = replace(op, inputs=tuple(_renamed(x, names) for x in op.inputs))
        result = fusion.value(op.output)
        attributes = (own.dims, own.start, own.step, own.low)
        key = (own.kind, tuple(map(_operand_key, own.inputs)), *attributes, result.shape, result.dtype)
        first = known.setdefault(key, op.output)
        if first == op.output or op.output in fusion.outputs:
            ops.append(own)
        else:
            names[op.output] = first
    return tuple(ops)


def _operand_key(x: Operand) -> object:
    """What tells operands apart: -0 is another number than 0, and NaN is equal to itself."""
    return ("number", repr(x.value)) if isinstance(x, Literal) else x


def _read_once(fusion: Fusion, ops: tuple[Op, ...]) -> dict[str, Op]:
    """Products that one operator reads, and nobody else."""
    readers = Counter(x for op in ops for x in op.tensor_inputs)
    return {
        op.output: op
        for op in ops
        if op.kind in PRODUCTS
        and fusion.value(op.output).dtype in _FUSED_IN
        and readers[op.output] == 1
        and op.output not in fusion.outputs
    }


def _with_terms(fusion: Fusion, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Products that only a sum along dimensions reads, marked."""
    folded = {x for op in ops if op.kind in SUMS for x in op.tensor_inputs}
    terms = folded & _read_once(fusion, ops).keys()
    return tuple(replace(op, is_term=True) if op.output in terms else op for op in ops)


def _contracted(fusion: Fusion, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Sums with the products that they alone read put into them."""
    products = _read_once(fusion, ops)
    out: list[Op] = []
    gone: set[str] = set()
    for op in ops:
        found = next((x for x in op.tensor_inputs if x in products), None)
        is_less_a_scalar = op.kind is OpKind.SUB and isinstance(op.inputs[1], Scalar)
        if op.kind not in (OpKind.ADD, OpKind.SUB) or found is None or is_less_a_scalar:
            out.append(op)
            continue
        gone.add(found)
        out += _sum_of_product(op, products[found])
    return tuple(op for op in out if op.output not in gone)


def _sum_of_product(op: Op, product: Op) -> tuple[Op, ...]:
    """`x * y + z` for `x * y + z`, with a sign turned for each of the differences `x * y - z` and `z - x * y`."""
    x, y = product.inputs if product.kind is OpKind.MUL else (*product.inputs, *product.inputs)
    is_left = op.inputs[0] == product.output
    z = op.inputs[1 if is_left else 0]
    turned: tuple[Op, ...] = ()
    if op.kind is OpKind.SUB:
        name = f"{op.output}_turned"
        if is_left:
            turned, z = _negated(z, name)
        elif isinstance(y, Literal) or isinstance(x, Scalar):
            turned, y = _negated(y, name)
        else:
            turned, x = _negated(x, name)
    return *turned, replace(op, kind=OpKind.FMA, inputs=(x, y, z))


def _negated(x: Operand, name: str) -> tuple[tuple[Op, ...], Operand]:
    """An operand with the other sign, and the operator that turns it, if there has to be one."""
    assert not isinstance(x, Scalar), f"{x}: no operator turns a scalar"
    if isinstance(x, Literal):
        return (), Literal(-x.value)
    return (Op(OpKind.NEG, (x,), name),), name


def _limited(fusion: Fusion, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Every function with the coarsest grade that it may take."""
    dtypes = {v.name: v.dtype for v in fusion.values}
    dtypes |= {op.output: dtypes[op.tensor_inputs[0]] for op in ops if op.output not in dtypes}
    readers: dict[str, list[Op]] = {}
    for op in ops:
        for x in dict.fromkeys(op.tensor_inputs):
            readers.setdefault(x, []).append(op)
    decides: dict[str, bool] = {}
    is_narrow: dict[str, bool] = {}
    for op in reversed(ops):
        read_by = readers.get(op.output, [])
        decides[op.output] = any(_decides(r, dtypes, decides) for r in read_by)
        is_narrow[op.output] = dtypes[op.output] in _SHORT or (
            op.output not in fusion.outputs and all(_narrows(r, dtypes, is_narrow) for r in read_by)
        )
    return tuple(
        replace(op, grade=_limit(op.kind, dtypes[op.output], decides[op.output], is_narrow[op.output])) for op in ops
    )


def _decides(reader: Op, dtypes: Mapping[str, DType], decides: Mapping[str, bool]) -> bool:
    """True if something decides by what the reader reads. A sum or product of floats ends it by its own error."""
    is_cast = reader.kind is OpKind.CAST and not dtypes[reader.output].is_float
    if reader.kind in COMPARE or reader.kind.row.jumps or is_cast:
        return True
    return reader.kind not in ROUNDING_FOLDS | SCANS and decides[reader.output]


def _narrows(reader: Op, dtypes: Mapping[str, DType], is_narrow: Mapping[str, bool]) -> bool:
    """True if what the reader makes of a value is rounded to 16 or 8 bits before it is summed, compared or stored."""
    return (
        reader.kind not in FOLDS | SCANS | COMPARE | CONTRACTIONS
        and dtypes[reader.output].is_float
        and is_narrow[reader.output]
    )


def _limit(kind: OpKind, dtype: DType, decides: bool, is_narrow: bool) -> MathGrade:
    if decides or dtype is DType.F64 or not dtype.is_float:
        return MathGrade.EXACT
    return kind.row.nearest(MathGrade.COARSE if is_narrow else MathGrade.APPROX)


def _renumbered(fusion: Fusion) -> Fusion:
    """The fusion with results named `v0`, `v1`, … in the order of the operators, if those are others now."""
    if tuple(op.output for op in fusion.ops) == tuple(v.name for v in fusion.values[len(fusion.inputs) :]):
        return fusion
    names = {name: name for name in fusion.inputs} | {op.output: f"v{n}" for n, op in enumerate(fusion.ops)}
    values = {v.name: v for v in fusion.values}
    for op in fusion.ops:
        if op.output not in values:  # an operand with the other sign
            like = values[op.tensor_inputs[0]]
            values[op.output] = Value(op.output, like.shape, like.dtype, dense_strides(like.shape))
    kept = (*fusion.inputs, *(op.output for op in fusion.ops))
    return replace(
        fusion,
        values=tuple(replace(values[name], name=names[name]) for name in kept),
        ops=tuple(
            replace(op, inputs=tuple(_renamed(x, names) for x in op.inputs), output=names[op.output])
            for op in fusion.ops
        ),
        outputs=tuple(names[name] for name in fusion.outputs),
        aliases=tuple((names[output], name) for output, name in fusion.aliases),
        orders=tuple((names[name], order) for name, order in fusion.orders),
    )


def _renamed(operand: Operand, names: Mapping[str, str]) -> Operand:
    return names.get(operand, operand) if isinstance(operand, str) else operand
