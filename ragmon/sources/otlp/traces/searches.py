"""Retrieval by tools, as agents do it: which of their calls searched, and what they found."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from ragmon.sources.otlp.reading.documents import Document
from ragmon.sources.otlp.reading.facts import RETRIEVER, TOOL, SourcedValue
from ragmon.sources.otlp.traces.tree import Node, outermost

_RETRIEVING = re.compile(
    "retriev|search|knowledge|lookup|similar|document|context|get_?information"
    "|(?<![a-z])(?:docs|kb|rag)(?![a-z])"  # as words: storage is none of them
)
_NEW_WORD = re.compile("(?<=[a-z])(?=[A-Z])")


class Search(NamedTuple):
    """A call of a tool that retrieves; ``documents`` is None when nobody says what it found."""

    node: Node
    documents: list[Document] | None
    said: SourcedValue | None

    @property
    def key(self) -> str:
        """Which key said it."""
        return self.said.key if self.said else ""


def searches(tops: Sequence[Node]) -> list[Search]:
    """The calls whose result is documents, or whose tool is named after searching."""
    found = (_search(node) for node in outermost(tops, TOOL, RETRIEVER))
    return [each for each in found if each is not None]


def _search(node: Node) -> Search | None:
    facts = node.facts
    if facts.documents:
        return Search(node, facts.documents, facts.find("documents"))
    named = str(facts.value("tool_name") or "")
    if not _RETRIEVING.search(_NEW_WORD.sub("_", named).lower()):
        return None
    passages = facts.find("passages")
    if passages is not None:
        return Search(node, passages.value, passages)
    text = facts.find("tool_text")
    return Search(node, text and [Document(text=text.value, source=named)], text)
