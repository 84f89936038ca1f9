"""Error text of a failed trace: the step, the type and the message, without stack traces."""

import re
from collections.abc import Sequence

from ragmon.sources.otlp.reading.facts import CHAIN, MODEL, OTHER
from ragmon.sources.otlp.spans import ERROR
from ragmon.sources.otlp.traces.tree import Node

_MAX_MESSAGE = 500
_THROWN = re.compile(r"^((?:[A-Za-z_][\w.]*)?(?:Error|Exception)): .*\n +at ", re.MULTILINE)
_VAGUE = (CHAIN, OTHER)
_ANY = ("", "Exception", "builtins.Exception")
_TYPED = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Timeout|Warning|Exit))\s*[(:]")


def is_failed(node: Node) -> bool:
    """True when the step failed."""
    return node.span.status == ERROR or bool(node.facts.value("failed"))


def describe_error(tops: Sequence[Node], nodes: Sequence[Node]) -> tuple[str, Node, str]:
    """``where: type: message`` of the deepest failed step below a failed top.

    Some instrumentations mark the steps beside it as failed too; a step that raised goes first.

    Returns:
        The text, the step, and the key it came from.
    """
    failed = [node for node in nodes if is_failed(node)]
    deepest = max(failed or tops, key=lambda node: (_depth(node), _raised(node), node.span.end_ns))
    kind, message, key = _why(deepest)
    if not kind and not message:
        kind, message, key = _why(tops[0])
    roles = (node.role for node in (deepest, *deepest.ancestors()) if node.role not in _VAGUE)
    role = next(roles, OTHER) if deepest.role == OTHER else deepest.role
    where = "llm" if role == MODEL else role
    return ": ".join(part for part in (where, kind, message) if part), deepest, key


def _depth(node: Node) -> int:
    return sum(1 for _ in node.ancestors())


def _raised(node: Node) -> bool:
    return any(event.name == "exception" for event in node.span.events)


def _why(node: Node) -> tuple[str, str, str]:
    """Type, message and the key they came from."""
    span = node.span
    raised = [event for event in span.events if event.name == "exception"]
    exception = raised[-1].attributes if raised else {}
    kind = str(span.attributes.get("error.type") or exception.get("exception.type") or "")
    cause = str(exception.get("exception.cause") or "")
    message = _short(str(exception.get("exception.message") or ""))
    message = message or _short(str(node.facts.value("error_message") or span.message))
    whole = str(exception.get("exception.message") or "")
    if kind in _ANY and (match := _TYPED.match(message) or _THROWN.search(whole)):
        kind = match[1]  # JavaScript's stack, where it follows the message, begins with the type
    key = "exception" if raised else "error.type" if kind else "status"
    kind = kind.rpartition(".")[2]
    if cause and cause not in kind:
        kind = f"{kind} from {cause}"
    return kind, message, key


def _short(message: str) -> str:
    """Without the stack trace that some instrumentations append."""
    head = message.partition("Traceback (most recent call last)")[0].strip()
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    if lines and lines[0].endswith(":"):  # it only announces what failed
        return " ".join(lines)[:_MAX_MESSAGE]
    return (lines[0] if lines else "")[:_MAX_MESSAGE]
