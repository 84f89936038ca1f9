"""BM25 over chunks, by ``bm25s``."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import structs

from ragmon.demo.words import terms
from ragmon.errors import RagmonError, SettingsError, extra_hint
from ragmon.records import Chunk


class IndexDownError(RagmonError):
    """The index did not answer."""


class Retriever(Protocol):
    """Component that finds chunks for a query."""

    def search(self, query: str, k: int) -> list[Chunk]:
        """The best ``k`` chunks with their scores, best first; fewer where fewer match.

        Raises:
            IndexDownError: the index did not answer.
        """
        ...


class Bm25:
    """A BM25 index in memory.

    Raises:
        SettingsError: the library that holds the index is not installed.
    """

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._chunks = chunks
        self._index = _new_index()
        self._index.index([terms(chunk.text or "") for chunk in chunks], show_progress=False)

    def search(self, query: str, k: int) -> list[Chunk]:
        """The best ``k`` chunks that share a term with the query, best first."""
        token_ids = self._index.get_tokens_ids(terms(query))
        if not token_ids:
            return []
        k = min(k, len(self._chunks))
        places, scores = self._index.retrieve([token_ids], k=k, show_progress=False)
        return [
            structs.replace(self._chunks[at], score=round(score, 4))
            for at, score in zip(places[0].tolist(), scores[0].tolist(), strict=True)
            if score > 0.0
        ]


class Down:
    """An index that does not answer: what an outage puts in the place of another."""

    def search(self, query: str, k: int) -> list[Chunk]:
        """Nothing, ever."""
        raise IndexDownError(f"the index did not answer a search for {k} chunks: {query[:40]!r}")


def _new_index() -> Any:
    try:
        import bm25s  # noqa: PLC0415  The extra is needed by whoever searches, not by an import.
    except ImportError as missing:
        raise SettingsError(
            "the demo's retriever needs the bm25s library",
            hint=extra_hint("demo"),
        ) from missing
    # It lowers its own level to DEBUG on import, and would write into the daemon's log.
    logging.getLogger("bm25s").setLevel(logging.WARNING)
    return bm25s.BM25(k1=1.2, b=0.75)
