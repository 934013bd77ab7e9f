"""Kernels over lists of tensors as CUDA C++: the table of a launch, and what a block finds in it."""

from __future__ import annotations

from compiler.emit.values import ELEMENT
from compiler.lower.kernel_ir import Kernel
from compiler.lower.lists import CHUNK_ELEMS
from compiler.lower.operands import ListTable

TABLE = "Lists"
"""The type of the parameter."""


def table_type(table: ListTable) -> str:
    """Column by column; `first`: the number of each tensor's first chunk, and of the chunks of all."""
    return (
        f"struct {TABLE} {{\n  u64 address[{len(table.slots)}][{table.rows}];\n  u64 elems[{table.rows}];\n"
        f"  u32 first[{table.rows + 1}];\n  u32 count;\n}};\n"
    )


def chunk_of_list(kernel: Kernel, table: ListTable) -> list[str]:
    """The chunk of a block: the last tensor whose chunks begin no later, its addresses, and its elements that are left.
    All blocks read the same parameters, which lie in constant memory."""
    lines = [
        "u32 row = 0u;",
        "for (u32 end = lists.count; end - row > 1u;) {",
        "  const u32 middle = (row + end) / 2u;",
        "  if (lists.first[middle] <= blockIdx.x) row = middle; else end = middle;",
        "}",
        f"const u64 done = static_cast<u64>(blockIdx.x - lists.first[row]) * {table.chunk}u;",
        "const u64 left = lists.elems[row] - done;",
        f"const Index {CHUNK_ELEMS} = left < {table.chunk}u ? static_cast<Index>(left) : {table.chunk}u;",
    ]
    slots = dict(table.pointers)
    for p in kernel.pointers:
        if p.name in slots:
            const = "" if p.written else "const "
            address = f"lists.address[{slots[p.name]}][row]"
            begins = "" if p.position in table.single else " + done"
            lines.append(
                f"{const}{ELEMENT[p.dtype]}* {p.name} = "
                f"reinterpret_cast<{const}{ELEMENT[p.dtype]}*>({address}){begins};"
            )
    return [f"  {line}" for line in lines]
