"""The steps of an agent: its retrievals one by one, and its calls of tools."""

from collections.abc import Sequence

from ragmon.records import MAX_STEPS, AnswerStep
from ragmon.sources.otlp.reading.documents import Document, chunks_of
from ragmon.sources.otlp.reading.facts import TOOL
from ragmon.sources.otlp.traces.errors import is_failed
from ragmon.sources.otlp.traces.retrieval import Retrieval
from ragmon.sources.otlp.traces.tree import Node, outermost

_LONGEST_NAME = 256


def steps_of(tops: Sequence[Node], retrieval: Retrieval) -> list[AnswerStep] | None:
    """Retrievals and calls of tools in their order; None for a single retrieval without tools."""
    retrieving = {id(node) for node, _ in retrieval.by_step}
    tools = [node for node in outermost(tops, TOOL) if not _holds(node, retrieving)]
    if not tools and len(retrieval.by_step) < 2 and not retrieval.tools:
        return None
    calls = [(node, _retrieval(node, documents)) for node, documents in retrieval.by_step]
    calls += [
        (node, AnswerStep(kind="tool", tool=_name(node), failed=is_failed(node))) for node in tools
    ]
    calls.sort(key=lambda call: call[0].span.start_ns)
    return [step for _, step in calls[:MAX_STEPS]]


def _retrieval(node: Node, documents: list[Document] | None) -> AnswerStep:
    failed = is_failed(node)
    recorded = documents is not None and not (failed and not documents)
    ids = [chunk.id for chunk in chunks_of(documents or ())] if recorded else None
    return AnswerStep(tool=_name(node), chunk_ids=ids, failed=failed)


def _holds(tool: Node, retrieving: set[int]) -> bool:
    """True for a tool that is a retrieval, or has one inside: it counts as that."""
    below = [tool]
    for node in below:
        if id(node) in retrieving:
            return True
        below += node.children
    return False


def _name(node: Node) -> str:
    return str(node.facts.value("tool_name") or "").replace("\0", "")[:_LONGEST_NAME]
