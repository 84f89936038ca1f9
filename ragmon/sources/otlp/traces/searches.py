"""Retrieval by tools, as agents do it: the calls that searched, and their documents."""

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
    """A call of a tool that retrieves; ``documents`` is None when they are not recorded."""

    node: Node
    documents: list[Document] | None
    sourced: SourcedValue | None

    @property
    def key(self) -> str:
        """The attribute key of the documents; empty when there are none."""
        return self.sourced.key if self.sourced else ""


def searches(tops: Sequence[Node]) -> list[Search]:
    """The calls whose result is documents, or whose tool is named after searching."""
    candidates = (_search(node) for node in outermost(tops, TOOL, RETRIEVER))
    return [each for each in candidates if each is not None]


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
