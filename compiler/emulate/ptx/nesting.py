"""An order of the nodes of a graph in which loops are contiguous and joins come after what leads to them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

Graph = Sequence[Sequence[int]]
"""The successors of each node."""


def order(graph: Graph, entry: int = 0) -> list[int]:
    """All nodes, each once; those that `entry` does not reach stand where their number puts them.

    A topological order of the strongly connected components; within a loop the header comes first and the edges back
    to it are ignored, and so on for the loops inside. So a loop is contiguous, comes before what it leads to, and every
    edge goes forward except those to the header of a loop that holds both ends. A loop with several entries (an
    irreducible one) takes the lowest of them for its header. Among nodes that may come next the lowest goes first,
    which keeps to the order of the program.

    Bourdoncle, "Efficient chaotic iteration strategies with widenings" (1993), describes the weak topological order
    that this is.
    """
    result: list[int] = []
    # A task is a set of nodes to order and the header, if it is a loop: edges to it are then ignored.
    tasks: list[tuple[list[int], int | None]] = [(list(range(len(graph))), None)]
    predecessors: list[list[int]] = [[] for _ in graph]
    for node, successors in enumerate(graph):
        for successor in successors:
            predecessors[successor].append(node)
    while tasks:
        nodes, header = tasks.pop()
        if len(nodes) == 1:
            result.append(nodes[0])
            continue
        inside = set(nodes)
        components = _sorted(graph, _components(graph, nodes, inside, header), inside, header)
        tasks.extend((c, _header(c, predecessors, entry)) for c in reversed(components))
    return result


def _header(component: list[int], predecessors: Graph, entry: int) -> int:
    members = set(component)
    entries = [n for n in component if n == entry or any(p not in members for p in predecessors[n])]
    return min(entries or component)


def _components(graph: Graph, nodes: Iterable[int], inside: set[int], header: int | None) -> list[list[int]]:
    """Strongly connected components (Tarjan's algorithm, without recursion) of the nodes `inside`."""
    found: list[list[int]] = []
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in nodes:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(graph[root]))]
        while path:
            node, successors = path[-1]
            for successor in successors:
                if successor not in inside or successor == header:
                    continue
                if successor not in number:
                    number[successor] = low[successor] = len(number)
                    stack.append(successor)
                    on_stack.add(successor)
                    path.append((successor, iter(graph[successor])))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], number[successor])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == number[node]:
                    cut = stack.index(node)
                    component = stack[cut:]
                    del stack[cut:]
                    on_stack.difference_update(component)
                    found.append(component)
    return found


def _sorted(graph: Graph, components: list[list[int]], inside: set[int], header: int | None) -> list[list[int]]:
    """Topologically: of the components that may come next, the one with the lowest node. A header, which nothing else
    in its loop then leads to and which leads to all of it, is first."""
    of = {node: k for k, component in enumerate(components) for node in component}
    edges = {
        (of[node], of[successor])
        for node in inside
        for successor in graph[node]
        if successor in inside and successor != header and of[node] != of[successor]
    }
    following: list[list[int]] = [[] for _ in components]
    waiting = [0] * len(components)
    for before, after in edges:
        following[before].append(after)
        waiting[after] += 1
    first = [min(component) for component in components]
    ready = [(first[k], k) for k in range(len(components)) if not waiting[k]]
    heapq.heapify(ready)
    result: list[list[int]] = []
    while ready:
        _, k = heapq.heappop(ready)
        result.append(components[k])
        for after in following[k]:
            waiting[after] -= 1
            if not waiting[after]:
                heapq.heappush(ready, (first[after], after))
    return result
