"""Builds the tensors and operators of an unscheduled fusion over its space, from the outputs up to the inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import gcd

from compiler.dtypes import DType
from compiler.errors import Unsupported
from compiler.ir.domain import ScheduledFusion
from compiler.ir.expr import Expr, var
from compiler.ir.fusion import Fusion, Literal, Number, Op, Operand, dense_strides
from compiler.ir.iter_domain import IterDomain, IterKind, MemoryType, ParallelType
from compiler.ir.ops import (
    CHOICES,
    CONTRACTIONS,
    FOLDS,
    POINTWISE,
    RANDOM,
    ROUNDING_FOLDS,
    SCANS,
    VIEWS,
    MathGrade,
    OpKind,
)
from compiler.ir.tensor import TensorOp, TensorView
from compiler.ir.views import (
    View,
    Within,
    depends_on,
    narrowed,
    position,
    within,
)
from compiler.schedule.start_choices import Choices, numbered, refuse_chosen
from compiler.schedule.start_folds import fold_needs, is_folded
from compiler.schedule.start_limits import refuse_many_pieces, refuse_many_tensors
from compiler.schedule.start_pads import edges_of, inside_a_pad, is_zeroed
from compiler.schedule.start_reads import (
    cut_strides,
    every_so_many,
    global_tensor,
    in_pieces,
    read_apart,
    with_axes_of_the_space,
)
from compiler.schedule.start_requests import Part, Request, accumulator, one_to_one, pieces, through
from compiler.schedule.start_scans import scan_needs
from compiler.schedule.start_space import KernelSpace, is_reduced, output_dims, output_view, scanned_dims


@dataclass
class StartBuild:
    """A fusion's form over a space, under construction.

    `joints`: an index and its value where the next operand starts, for every place where a concatenation selects.
    """

    fusion: Fusion
    space: KernelSpace
    tensors: dict[str, TensorView] = field(default_factory=dict)
    ops: list[TensorOp] = field(default_factory=list)
    done: dict[Request, str] = field(default_factory=dict)
    made_by: dict[str, Op] = field(default_factory=dict)
    indices: dict[tuple[Expr, Part, DType], str] = field(default_factory=dict)
    numbers: dict[tuple[str, Part, DType], str] = field(default_factory=dict)
    joints: list[tuple[Expr, int]] = field(default_factory=list)
    choices: Choices = field(init=False)
    held: dict[tuple[str, Part], str] = field(default_factory=dict)
    """Input that says where a TAKE reads -> the registers that have it."""
    dims: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Tensor -> the dimensions of the space that its logical axes are."""

    def __post_init__(self) -> None:
        self.choices = Choices(self.fusion)
        self.made_by = {op.output: op for op in self.fusion.ops}
        for name in self.fusion.inputs:
            v = self.fusion.value(name)
            self.tensors[name] = global_tensor(name, v.shape, v.dtype, v.strides, v.align)

    def run(self) -> StartBuild:
        """Makes every output. Raises Unsupported, by its name, for an operator that does not fit the space."""
        refuse_many_pieces(self.fusion)
        for name in self.fusion.outputs:
            for part in range(self.space.parts):
                self.output(name, part)
        return self

    def scheduled(self) -> ScheduledFusion:
        """The unscheduled form."""
        sf = ScheduledFusion(self.fusion, tuple(self.tensors.values()), tuple(self.ops))
        if self.space.crossed and not self.space.is_chained:
            sf = with_axes_of_the_space(sf, self.space)
        return read_apart(sf, self.dims)

    # Requests --------------------------------------------------------------------------------------------------------

    def output(self, name: str, number: int) -> None:
        """An output, or one of its parts, is the pointwise result of that name, or a copy."""
        v, space = self.fusion.value(name), self.space
        part = self.output_part(name)
        source = self.tensor(Request(name, output_view(self.fusion, space, name, number), part))
        stored = self.stored_name(name, number)
        if source != stored:
            self.add(OpKind.COPY, (source,), part, v.dtype, name=stored, is_store=True)
        dims = output_dims(self.fusion, space, name)
        strides = self.stored_strides(name, tuple(space.whole[d] for d in dims))
        t = replace(global_tensor(stored, self.shape(part), v.dtype, strides, v.align), end=space.end(dims))
        if space.parts > 1:
            offset = number * space.shape[space.part_dim] * strides[space.part_dim]
            t = replace(t, part_of=name, part_offset=offset, align=gcd(v.align, offset * v.dtype.nbytes))
        self.tensors[stored] = t

    def stored_strides(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The strides of an output whose dimensions are taken as those of `shape`. Raises Unsupported where neighbours
        along one of these are no equal distance apart."""
        v, dense = self.fusion.value(name), dense_strides(shape)
        if v.strides == dense_strides(v.shape):
            return dense
        real, ours = [d for d, n in enumerate(v.shape) if n > 1], [d for d, n in enumerate(shape) if n > 1]
        sizes, steps = tuple(v.shape[d] for d in real), tuple(v.strides[d] for d in real)
        cut = cut_strides(sizes, steps, tuple(shape[d] for d in ours))
        if cut is None:
            found = (
                f"output {name} of shape {list(v.shape)} and strides {list(v.strides)} in a kernel over {list(shape)}"
            )
            raise Unsupported(found, "Leave it to a launch of its own, or let it be dense.")
        at = dict(zip(ours, cut, strict=True))
        return tuple(at.get(d, stride) for d, stride in enumerate(dense))

    def output_part(self, name: str) -> Part:
        """Which of its tensors an output is."""
        if name in self.space.across:
            return Part.ACROSS
        return Part.KEPT if is_reduced(self.fusion, self.space, name) else Part.FULL

    def dims_of(self, part: Part) -> tuple[int, ...]:
        """The dimensions of the space that a tensor has: of a reduction, those that it folds among them."""
        match part:
            case Part.KEPT:
                return self.space.kept
            case Part.ACROSS:
                return self.space.left_across
            case Part.COLUMN if self.space.is_chained:
                return self.space.kept
            case _:
                return tuple(range(len(self.space.shape)))

    def stored_name(self, name: str, number: int) -> str:
        """The tensor of an output, or of one of its parts."""
        return f"{name}_{number}" if self.space.parts > 1 else name

    def is_stored(self, tensor: str) -> bool:
        """True for an output, or a part of one."""
        return any(tensor == self.stored_name(n, i) for n in self.fusion.outputs for i in range(self.space.parts))

    def tensor(self, wanted: Request) -> str:
        """The tensor of a request, made once, after those that it needs."""
        waiting = [wanted]
        while waiting:
            request = waiting[-1]
            if request in self.done:
                waiting.pop()
                continue
            needs = self.needs(request)
            missing = [r for r in needs if r not in self.done]
            if missing:
                waiting.append(missing[0])
                continue
            self.done[request] = self.make(request, [self.done[r] for r in needs])
            refuse_many_tensors(wanted.value, len(self.ops), len(self.done))
            waiting.pop()
        return self.done[wanted]

    def needs(self, request: Request) -> tuple[Request, ...]:
        """The requests whose tensors the one of `request` is made from, in the order of its operands."""
        op = self.made_by.get(request.value)
        if op is None:
            return self.choices.indices(request)
        refuse_chosen(op, request)
        if op.kind in CHOICES:
            return (self.choices.of_operand(op, request),)
        if is_folded(self.fusion, op):
            return fold_needs(self.fusion, self.space, op, request)
        if op.kind in SCANS:
            return (scan_needs(self.fusion, self.space, op, request),)
        if op.kind in VIEWS or op.kind in FOLDS:
            return (replace(request, value=op.tensor_inputs[0], view=through(self.fusion, op, request.view)),)
        if op.kind is OpKind.CAT:
            return tuple(piece for piece, _ in pieces(self.fusion, op, request))
        if op.kind is OpKind.PAD:
            inside = inside_a_pad(self.fusion, op, request)
            return () if inside is None else (inside,)
        if op.kind in RANDOM:
            return tuple(replace(request, value=x, view=(), within=()) for x in op.tensor_inputs)
        if op.kind in POINTWISE or op.kind in (OpKind.COPY, OpKind.IOTA, OpKind.FULL):
            return tuple(replace(request, value=x) for x in op.tensor_inputs)
        raise Unsupported(f"operator {op.kind} ({op.output})", "Leave it to another kernel.")

    # Tensors ---------------------------------------------------------------------------------------------------------

    def make(self, request: Request, needs: list[str]) -> str:
        op = self.made_by.get(request.value)
        if op is None:
            request = replace(request, view=narrowed(request.view, request.within))
            return self.taken(request, needs) if request.rows else self.input_view(request)
        if op.kind in CHOICES:
            return needs[0]
        if is_folded(self.fusion, op):
            if request.part in (Part.FOLD, Part.COLUMN):
                return self.fold(op, request.part, tuple(needs))
            return self.folded_value(op, request, needs[0])
        if op.kind in VIEWS or op.kind in FOLDS:
            return needs[0]
        if op.kind is OpKind.CAT:
            return self.joined(op, request, needs)
        if op.kind is OpKind.PAD:
            return self.padded(op, request, *needs)
        if op.kind is OpKind.FULL:
            return self.full(op.fills_with, request.part, self.dtype(op.output))
        if op.kind is OpKind.IOTA:
            return self.iota(request.view[op.dims[0]], request.part, self.dtype(op.output))
        if op.kind in RANDOM:
            strides = dense_strides(self.fusion.value(op.output).shape)
            element = sum((e * stride for e, stride in zip(request.view, strides, strict=True)), Expr())
            view = self.local((element,), request.part)
            return self.add(
                op.kind, tuple(needs), request.part, self.dtype(op.output), view=view, name=self.own_name(request)
            )
        if op.kind in SCANS:
            dims, name = scanned_dims(self.fusion, self.space, op), self.own_name(request)
            if not dims:  # before the one element there is nothing
                return self.full(0, request.part, self.dtype(op.output))
            return self.add(op.kind, tuple(needs), request.part, self.dtype(op.output), dims, name=name, start=op.start)
        tensors = iter(needs)
        operands = tuple(x if isinstance(x, Number) else next(tensors) for x in op.inputs)
        dtype, name = self.dtype(op.output), self.own_name(request)
        return self.add(op.kind, operands, request.part, dtype, name=name, grade=op.grade, is_term=op.is_term)

    def dtype(self, name: str) -> DType:
        return self.fusion.value(name).dtype

    def shape(self, part: Part) -> tuple[int, ...]:
        return self.space.extents(self.dims_of(part))

    def own_name(self, request: Request) -> str | None:
        """The value's own name for the tensor that holds it as it is."""
        name, space = request.value, self.space
        if name in self.fusion.outputs:
            if self.output_part(name) is not request.part:
                return None
            views = (output_view(self.fusion, space, name, part) for part in range(space.parts))
            stored = (self.stored_name(name, i) for i, view in enumerate(views) if view == request.view)
            name = next(stored, "")
        else:
            own = space.index(self.dims_of(request.part))
            name = name if self.fusion.value(name).shape == self.shape(request.part) and request.view == own else ""
        is_whole = not (request.within or request.rows)
        return name if name and name not in self.tensors and is_whole else None

    def fold(self, op: Op, part: Part, operands: tuple[str, ...]) -> str:
        """The reduction itself, in its accumulator's dtype."""
        dtype = self.tensors[operands[0]].dtype
        kind = OpKind.SUM if op.kind is OpKind.MEAN else op.kind
        dtype = accumulator(kind, dtype)
        name = f"{op.output}_{kind}"
        if kind in ROUNDING_FOLDS and dtype.is_float and name in self.tensors:
            # Two sums of the same terms may differ in their last bits, and who reads both would see it.
            raise Unsupported(
                f"operator {op.kind} ({op.output}), which two views of its result would have folded twice",
                "Leave it to a launch of its own.",
            )
        return self.add(kind, operands, part, dtype, name=name if name not in self.tensors else None)

    def folded_value(self, op: Op, request: Request, fold: str) -> str:
        """A reduction's result in its own dtype, a mean's quotient, in the full space or over the kept dimensions."""
        out, dtype, value = fold, self.tensors[fold].dtype, self.fusion.value(op.output)
        if request.part is Part.FULL:
            out = self.add(OpKind.BROADCAST_TO, (out,), request.part, dtype, self.space.kept)
        if op.kind is OpKind.MEAN:
            count = self.fusion.value(op.tensor_inputs[0]).elems // value.elems
            out = self.add(OpKind.DIV, (out, Literal(float(count))), request.part, dtype, grade=op.grade)
        if dtype is not value.dtype:
            out = self.add(OpKind.CAST, (out,), request.part, value.dtype)
        return out

    def joined(self, op: Op, request: Request, tensors: list[str]) -> str:
        """The operands of a concatenation, one after the other: each is taken below where the next one starts."""
        parts, index, dtype = pieces(self.fusion, op, request), request.view[op.dims[0]], self.dtype(op.output)
        out = tensors[-1]
        if len(tensors) > 1:
            along = self.position(index, request.part)
        for tensor, (_, start) in zip(reversed(tensors[:-1]), reversed(parts[1:]), strict=True):
            self.joints.append((index, start))
            below = self.add(OpKind.LT, (along, Literal(float(start))), request.part, DType.BOOL)
            out = self.add(OpKind.WHERE, (below, tensor, out), request.part, dtype)
        return out

    def padded(self, op: Op, request: Request, tensor: str | None = None) -> str:
        """The operand of a pad inside its bounds, and what it is padded with around it.

        What a view reads outside of bounds is zero already, which is then all that there is to it.
        """
        value, dtype = Literal(op.fills_with), self.dtype(op.output)
        if tensor is None:
            return self.full(value.value, request.part, dtype)
        if is_zeroed(value.value) and self.is_read_by_a_view(tensor):
            return tensor
        for edge in edges_of(self.fusion, op, request.view):
            along = self.position(edge.index, request.part)
            below = self.add(OpKind.LT, (along, Literal(float(edge.at))), request.part, DType.BOOL)
            chosen = (below, value, tensor) if edge.is_first else (below, tensor, value)
            tensor = self.add(OpKind.WHERE, chosen, request.part, dtype)
        return tensor

    def is_read_by_a_view(self, tensor: str) -> bool:
        """True for a tensor that is an input seen through a view, inside all bounds that it was asked for within."""
        return any(op.output == tensor and op.kind is OpKind.VIEW for op in self.ops)

    def full(self, value: int | float, part: Part, dtype: DType) -> str:
        """The tensor whose elements are all one number."""
        key = (repr(value), part, dtype)
        if key not in self.numbers:
            self.numbers[key] = self.add(OpKind.FULL, (Literal(value),), part, dtype)
        return self.numbers[key]

    def position(self, index: Expr, part: Part) -> str:
        """The tensor whose value is an index, to be compared."""
        return self.iota(index, part, DType.I32 if index.hi < 1 << 31 else DType.I64)

    def iota(self, index: Expr, part: Part, dtype: DType) -> str:
        """The tensor whose value is an index."""
        key = (index, part, dtype)
        if key not in self.indices:
            self.indices[key] = self.add(OpKind.IOTA, (), part, dtype, view=self.local((index,), part))
        return self.indices[key]

    def local(self, view: View, part: Part) -> View:
        """A view in the positions of the tensor that reads: those of the dimensions that it has are counted anew."""
        if part not in (Part.KEPT, Part.ACROSS):
            return view
        number = {f"d{d}": var(position(i, self.space.shape[d])) for i, d in enumerate(self.dims_of(part))}
        return tuple(e.substitute({v: number[v.name] for v in e.variables if v.name in number}) for e in view)

    @property
    def multiplies(self) -> bool:
        """Whether matrices are multiplied, whose operands are best tensors of the space's dimensions."""
        return any(op.kind in CONTRACTIONS for op in self.fusion.ops)

    def input_view(self, request: Request) -> str:
        """An input through a view: itself, one permute, one broadcast whose dims may be in any order, or a VIEW.

        Every so manyth element of it is a tensor too, with longer strides.
        """
        name, view, part = request.value, request.view, request.part
        source = self.tensors[name]
        own = self.space.index(self.dims_of(part))
        every = None if request.within else every_so_many(source, view, own)
        if every is None and self.multiplies and not request.within:
            every = in_pieces(source, view, own)
        if every is not None:
            name, view = f"{name}_s{len(self.tensors)}", every.view
            source = replace(
                global_tensor(name, every.sizes, source.dtype, every.strides, source.align), part_of=request.value
            )
            self.tensors[name] = source
        sizes, shape = tuple(a.extent for a in source.logical), self.shape(part)
        places = one_to_one(sizes, view, shape, own)
        if places is None or request.within:
            bounds = tuple(within(self.local((w.index,), part)[0], w.low, w.high) for w in request.within)
            return self.add(OpKind.VIEW, (name,), part, source.dtype, view=self.local(view, part), within=bounds)
        if sizes == shape and view == own:
            return name
        if len(sizes) == len(shape) and all(sizes[i] == shape[d] for i, d in enumerate(places)):
            permuted = tuple(places.index(d) for d in range(len(shape)))
            return self.add(OpKind.PERMUTE, (name,), part, source.dtype, permuted)
        return self.add(OpKind.BROADCAST_TO, (name,), part, source.dtype, places)

    def taken(self, request: Request, tensors: list[str]) -> str:
        """An input at places that are data: registers have what says where, so that it is there before it is used."""
        part, extents = request.part, tuple(row.extent for row in request.rows)
        for name in tensors:
            if name in self.fusion.inputs and (name, part) not in self.held:
                self.held[name, part] = self.add(OpKind.COPY, (name,), part, self.dtype(name))
        bounds = tuple(within(self.local((w.index,), part)[0], w.low, w.high) for w in request.within)
        return self.add(
            OpKind.TAKE,
            (request.value, *(self.held.get((name, part), name) for name in tensors)),
            part,
            self.dtype(request.value),
            extents,
            view=self.local(numbered(request.view, request.rows), part),
            within=bounds,
        )

    def add(
        self,
        kind: OpKind,
        inputs: tuple[Operand, ...],
        part: Part,
        dtype: DType,
        dims: tuple[int, ...] = (),
        view: View = (),
        within: tuple[Within, ...] = (),
        name: str | None = None,
        grade: MathGrade = MathGrade.EXACT,
        is_term: bool = False,
        start: int = 0,
        is_store: bool = False,
    ) -> str:
        name = name or f"w{len(self.ops)}"
        op = TensorOp(kind, inputs, name, dims, grade=grade, start=start, view=view, within=within, is_term=is_term)
        kinds = self.kinds(op, part)
        if not is_store and self.is_stored(op.output) and IterKind.BROADCAST in kinds:
            # What is stored has elements along every axis; others read the value as it is.
            op = replace(op, output=f"w{len(self.ops)}")
        name = op.output
        logical = tuple(
            IterDomain(f"{name}.{d}", n, k) for d, (n, k) in enumerate(zip(self.shape(part), kinds, strict=True))
        )
        serial = (ParallelType.SERIAL,) * len(logical)
        end = self.space.end(self.dims_of(part))
        if end is not None and IterKind.BROADCAST in (kinds[end.outer], kinds[end.inner]):
            end = None
        self.tensors[name] = TensorView(name, dtype, MemoryType.LOCAL, logical, logical, serial, end=end)
        self.dims[name] = self.dims_of(part)
        self.ops.append(op)
        return name

    def kinds(self, op: TensorOp, part: Part) -> tuple[IterKind, ...]:
        """REDUCTION where it folds, BROADCAST where no operand varies along an axis of several places."""
        shape = self.shape(part)
        vary: set[int] = set(depends_on((*op.view, *(w.index for w in op.within))))
        for name in op.tensor_inputs:
            axes = [a for a in self.tensors[name].logical if not a.is_reduction]
            match op.kind:
                case OpKind.VIEW:
                    continue
                case OpKind.TAKE if name == op.inputs[0]:
                    continue
                case OpKind.PERMUTE:
                    mapped: Iterable[tuple[int, IterDomain]] = ((c, axes[p]) for c, p in enumerate(op.dims))
                case OpKind.BROADCAST_TO:
                    mapped = ((d, a) for d, a in zip(op.dims, axes, strict=True) if a.extent == shape[d])
                case _:
                    mapped = enumerate(axes)
            vary.update(d for d, axis in mapped if not axis.is_broadcast)
        vary.update(op.dims if op.kind in SCANS else ())
        # An axis of one place is what it is of an input: it repeats nothing, and may be merged with any.
        kinds = [IterKind.ITERATION if d in vary or n == 1 else IterKind.BROADCAST for d, n in enumerate(shape)]
        folds = {Part.FOLD: self.space.folded, Part.COLUMN: self.space.crossed}
        for d in folds.get(part, ()):
            kinds[d] = IterKind.REDUCTION
        return tuple(kinds)
