"""Model calls of a query: those that count, once each, and whether all of them failed."""

from collections.abc import Sequence
from typing import Any

from ragmon.sources.otlp.reading.facts import CHAIN, MODEL, OTHER, RERANKER, RETRIEVER
from ragmon.sources.otlp.traces.errors import is_failed
from ragmon.sources.otlp.traces.tree import Node, everything, outermost

NO_USAGE = (None, None, None)
_ROUNDED_NS = 1_000_000


def model_calls(tops: Sequence[Node]) -> list[Node]:
    """The outermost; where only chains were recorded, those that count tokens."""
    calls = outermost(tops, MODEL, RETRIEVER, RERANKER)
    if calls:
        return calls
    chains = outermost(tops, CHAIN, RETRIEVER, RERANKER)
    return [node for node in chains if node.facts.value("completion_tokens") is not None]


def is_around(node: Node) -> bool:
    """True for a step that is none of its own, but the code around others."""
    return node.role in (CHAIN, OTHER)


def unanswered(tops: Sequence[Node], models: Sequence[Node]) -> list[Node]:
    """The model calls when each failed and nothing answered instead: the error was caught."""
    if not models or not all(is_failed(node) for node in models):
        return []
    answered = any(is_around(node) and node.facts.value("answer") is not None for node in tops)
    return [] if answered else list(models)


def below(node: Node, role: str) -> list[Node]:
    """The steps of a role inside another."""
    return [each for each in everything(node.children) if each.role == role]


def counting_tokens(node: Node) -> Node:
    """The model call itself, or the first inside that counts tokens when it does not."""
    if node.facts.value("completion_tokens") is not None:
        return node
    inner = (
        call for call in below(node, MODEL) if call.facts.value("completion_tokens") is not None
    )
    return next(inner, node)


def each_reply_once(calls: list[Node]) -> list[Node]:
    """The calls without those that another instrumentation recorded at the same time.

    Both have the id that the provider gave the reply; where one has none, it ran within the other
    and counted the same tokens of the same model. Of the two the one with tokens stays.
    """
    once: list[Node] = []
    for node in calls:
        same = next((each for each in once if _is_same_reply(each, node)), None)
        if same is None:
            once.append(node)
        elif same.facts.value("completion_tokens") is None:
            once[once.index(same)] = node
    return once


def _is_same_reply(a: Node, b: Node) -> bool:
    if a.span.scope == b.span.scope:
        return False
    if max(a.span.start_ns, b.span.start_ns) > min(a.span.end_ns, b.span.end_ns):
        return False
    replies = {_reply_id(a), _reply_id(b)}
    if None not in replies:
        return len(replies) == 1
    if usage_of(a) != usage_of(b) or usage_of(a) == NO_USAGE:
        return False
    first, second = interval(a), interval(b)
    return is_within(first, second) or is_within(second, first)


def _reply_id(node: Node) -> Any:
    return node.facts.value("response_id") or node.facts.value("reply_id")


def interval(node: Node) -> tuple[int, int]:
    """Beginning and end of a call, in nanoseconds."""
    return node.span.start_ns, node.span.end_ns


def is_within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    """True for a call that ran while the other did; some SDKs round to milliseconds."""
    return outer[0] - _ROUNDED_NS <= inner[0] and inner[1] <= outer[1] + _ROUNDED_NS


def usage_of(node: Node) -> tuple[Any, Any, Any]:
    """Requested model and tokens of a call."""
    requested = node.facts.value("requested_model") or node.facts.value("model")
    tokens = (node.facts.value(f"{kind}_tokens") for kind in ("prompt", "completion"))
    prompt, completion = tokens
    return (requested, prompt, completion) if prompt or completion else NO_USAGE
