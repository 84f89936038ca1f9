"""Spans of one trace as trees, and the queries among them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ragmon.sources.otlp.conventions import read
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EVALUATOR,
    MODEL,
    OTHER,
    PART,
    RETRIEVER,
    TOOL,
    SpanFacts,
)
from ragmon.sources.otlp.spans import Span

_MOST_DEPTH = 256  # of a tree; real traces stay below fifty


class Node:
    """A span, its facts and its place in the tree."""

    __slots__ = ("children", "facts", "parent", "span")

    def __init__(self, span: Span, facts: SpanFacts) -> None:
        self.span = span
        self.facts = facts
        self.parent: Node | None = None
        self.children: list[Node] = []

    @property
    def role(self) -> str:
        """The kind of step."""
        return self.facts.role

    def ancestors(self) -> Iterator["Node"]:
        """From the parent to the top."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent


class Unit(NamedTuple):
    """Trees of spans that may be one query: their tops, by start."""

    span_id: bytes  # distinguishes it from the other queries of its trace
    tops: list[Node]


def build(spans: Sequence[Span]) -> list[Node]:
    """The tops: spans whose parent is not here, by their start.

    Parents that form a circle have no top; the one that starts first becomes it.
    """
    nodes = {span.span_id: Node(span, read(span)) for span in spans}
    for node in nodes.values():
        node.parent = nodes.get(node.span.parent_id)
    depths: dict[bytes, int] = {}
    for node in nodes.values():
        _place(node, depths)
    tops: list[Node] = []
    for node in sorted(nodes.values(), key=_start):
        (tops if node.parent is None else node.parent.children).append(node)
    for top in tops:
        if top.role == TOOL and outermost(top.children, MODEL):
            top.facts.role = CHAIN  # a function that asks a model, as Semantic Kernel's prompts
    return tops


def _start(node: Node) -> int:
    return node.span.start_ns


def _place(node: Node, depths: dict[bytes, int]) -> None:
    """Find the depths of a node and of all above it, each once: linear in the spans of a trace.

    A circle is cut above its earliest span. A span deeper than ``_MOST_DEPTH`` hangs under one
    of that depth, so that walking to the top is bounded.
    """
    path: dict[bytes, Node] = {}
    above: Node | None = node
    while above is not None and above.span.span_id not in depths:
        if above.span.span_id in path:
            nodes = list(path.values())
            min(nodes[nodes.index(above) :], key=_start).parent = None
            _place(node, depths)
            return
        path[above.span.span_id] = above
        above = above.parent
    for placed in reversed(path.values()):
        parent = placed.parent
        depth = 0 if parent is None else depths[parent.span.span_id] + 1
        if parent is not None and depth > _MOST_DEPTH:
            placed.parent, depth = parent.parent, _MOST_DEPTH
        depths[placed.span.span_id] = depth


def everything(tops: Sequence[Node]) -> list[Node]:
    """Every node, level by level."""
    nodes = list(tops)
    for node in nodes:  # it grows while it is walked
        nodes += node.children
    return nodes


def around(tops: Sequence[Node]) -> list[Node]:
    """The chains and unknown steps that lie under nothing else, level by level."""
    steps = [node for node in tops if node.role in _AROUND]
    for node in steps:
        steps += [child for child in node.children if child.role in _AROUND]
    return steps


_AROUND = (CHAIN, OTHER)
_ASIDE = (EVALUATOR, PART)


def outermost(tops: Sequence[Node], role: str, *shields: str) -> list[Node]:
    """Nodes of a role that lie under no other of it, nor under a shield, by their start."""
    nodes = []
    walked = list(tops)
    for node in walked:
        node_role = node.facts.role
        if node_role == role:
            nodes.append(node)
        elif node_role not in _ASIDE and node_role not in shields:
            walked += node.children
    return sorted(nodes, key=_start)


def units(tops: Sequence[Node]) -> list[Unit]:
    """Candidates for queries of their own.

    One root is one query, and spans whose parent is missing belong to it. Without a root, spans
    with both retrieval and generation are queries of their own; the others belong together when
    they miss the same parent, or when one retrieves and the next one generates.
    """
    tops = [node for node in tops if node.role not in _ASIDE]
    roots = [node for node in tops if not node.span.parent_id]
    orphans = [node for node in tops if node.span.parent_id]
    if len(roots) > 1:
        return _by_root(roots, orphans)
    if roots or len(orphans) < 2:
        return [Unit(top.span.span_id, [top, *orphans]) for top in roots] or [
            Unit(top.span.span_id, [top]) for top in orphans
        ]
    separate = _without_root(orphans)
    return sorted(separate, key=lambda unit: _start(unit.tops[0]))


def _without_root(orphans: list[Node]) -> list[Unit]:
    """Spans that are queries of their own, each with its siblings, and the others.

    A parent that several spans miss is an application's span that was not exported, unless two
    of them search.
    """
    separate: list[Unit] = []
    left: list[Node] = []
    for group in _siblings(orphans):
        whole = [node for node in group if _is_whole(node)]
        if whole and sum(map(_searches, whole)) < 2:
            separate.append(Unit(whole[0].span.span_id, group))
        else:
            separate += [Unit(node.span.span_id, [node]) for node in whole]
            left += [node for node in group if node not in whole]
    if len(separate) == 1 and not any(map(_searches, separate[0].tops)):
        separate[0].tops[:] = sorted((*separate[0].tops, *left), key=_start)  # its inputs
        return separate
    return separate + _by_parent(left)


def _siblings(orphans: list[Node]) -> list[list[Node]]:
    """Those that miss the same parent."""
    groups: dict[bytes, list[Node]] = {}
    for node in orphans:
        groups.setdefault(node.span.parent_id, []).append(node)
    return list(groups.values())


def _by_root(roots: list[Node], orphans: list[Node]) -> list[Unit]:
    by_root: dict[bytes, list[Node]] = {root.span.span_id: [root] for root in roots}
    for orphan in orphans:
        around = [
            root for root in roots if root.span.start_ns <= _start(orphan) <= root.span.end_ns
        ]
        by_root[(around or roots)[0].span.span_id].append(orphan)
    return [Unit(span_id, tops) for span_id, tops in by_root.items()]


def _by_parent(orphans: list[Node]) -> list[Unit]:
    joined: list[Unit] = []
    for group in _siblings(orphans):
        before = joined[-1].tops if joined else []
        if before and not outermost(before, MODEL) and not outermost(group, RETRIEVER):
            before.extend(group)
        else:
            joined.append(Unit(group[0].span.parent_id, group))
    return joined


def _is_whole(node: Node) -> bool:
    """True for more than a step: it retrieves and generates, or turns question into answer."""
    if node.role not in (CHAIN, OTHER):
        return False
    if turns_question_into_answer(node):
        return True
    return _searches(node) and bool(outermost([node], MODEL))


def _searches(node: Node) -> bool:
    return bool(outermost([node], RETRIEVER) or outermost([node], TOOL))


def turns_question_into_answer(node: Node) -> bool:
    """True for a chain with both, which is a root or has steps of its own."""
    if node.role != CHAIN or node.facts.is_step_only:
        return False
    if node.span.parent_id and not node.children:
        return False
    return node.facts.find("query") is not None and node.facts.find("answer") is not None
