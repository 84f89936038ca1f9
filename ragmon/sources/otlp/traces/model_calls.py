"""Model calls of a query: those that count, once each, and whether all of them failed."""

from collections.abc import Sequence

from ragmon.sources.otlp.reading.facts import CHAIN, MODEL, OTHER, RERANKER, RETRIEVER
from ragmon.sources.otlp.traces.errors import is_failed
from ragmon.sources.otlp.traces.tree import Node, everything, outermost


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

    Both have the id that the provider gave the reply; of the two the one with tokens stays.
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
    reply = a.facts.value("response_id") or a.facts.value("reply_id")
    return reply is not None and reply == (
        b.facts.value("response_id") or b.facts.value("reply_id")
    )
