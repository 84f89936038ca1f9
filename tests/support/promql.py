"""What a PromQL expression reads, out of its syntax tree."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import promql_parser as promql

GROWTH = ("rate", "irate", "increase")


class Read(NamedTuple):
    """One selector of an expression."""

    metric: str  # empty where a matcher of the name chooses several
    matchers: tuple[tuple[str, str, str], ...]  # label, operator, value
    function: str  # the innermost around it, or empty
    range_s: float | None  # of a range selector

    def fits(self, metric: str, labels: Mapping[str, str]) -> bool:
        """Whether it reads such a series."""
        named = {**labels, "__name__": metric}
        given = [*self.matchers, *([("__name__", "=", self.metric)] if self.metric else [])]
        return all(_matches(named.get(label, ""), op, value) for label, op, value in given)


def reads(expression: str) -> list[Read]:
    """Every selector; ValueError where the expression is none."""
    return list(_walk(promql.parse(expression), "", None))


def _walk(node: object, function: str, range_s: float | None) -> Iterator[Read]:
    if isinstance(node, promql.VectorSelector):
        matchers = tuple(
            (each.name, {"Equal": "=", "NotEqual": "!=", "Re": "=~", "NotRe": "!~"}[_op(each)],
             each.value)
            for each in node.matchers.matchers
        )  # fmt: skip
        yield Read(node.name or "", matchers, function, range_s)
    elif isinstance(node, promql.MatrixSelector):
        yield from _walk(node.vector_selector, function, node.range.total_seconds())
    elif isinstance(node, promql.Call):
        for each in node.args:
            yield from _walk(each, node.func.name, range_s)
    elif isinstance(node, promql.BinaryExpr):
        for each in (node.lhs, node.rhs):
            yield from _walk(each, function, range_s)
    elif not isinstance(node, promql.NumberLiteral | promql.StringLiteral):
        yield from _walk(node.expr, function, range_s)


def _op(matcher: object) -> str:
    return str(matcher.op).rpartition(".")[2]


def _matches(given: str, op: str, value: str) -> bool:
    same = bool(re.fullmatch(value, given)) if "~" in op else value == given
    return same != op.startswith("!")
