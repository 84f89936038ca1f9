"""Counts of one pass over records, in memory that grows with documents, not with records.

Beside the counts it keeps which documents each rated or judged answer had, four bytes a document
and answer; above ``MOST_COMPARED`` of them every second answer is let go, so that an even sample
is left.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.documents.compared import ComparedAnswers
from ragmon.documents.tallies import DayCounts, Tallies
from ragmon.documents.twins import TextSignatures
from ragmon.records import Grades

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]

MOST_DOCUMENTS = 300_000
"""Documents that are counted; each takes about half a kilobyte."""
_MOST_VERSIONS = 1_000  # names that are remembered
RANKS = 10
"""Ranks that are told apart: 1 to 9, then 10 and below."""
MINUTE_S = 60.0
DAY_S = 86_400.0


class RetrievedChunk(Struct, frozen=True, gc=False):
    """The part of a chunk that is read; its text stays packed."""

    id: str
    source: str | None = None
    text: msgspec.Raw = msgspec.Raw()


class RetrievalRecord(Struct, frozen=True, gc=False):
    """The part of a record that is read."""

    chunks: list[RetrievedChunk] | None = None
    citations: list[str] | None = None
    relevant_ids: list[str] | None = None
    grades: Grades | None = None


class RecordPiece(NamedTuple):
    """Some records, with what their observations tell."""

    records: Sequence[RetrievalRecord]
    sequences: Integers  # numbers in the store
    times: Floats  # unix seconds
    groups: Sequence[tuple[str, str]]  # pipeline and version
    group_of: Integers  # of each record
    disliked: Floats  # 1, 0 or NaN: not rated
    unfaithful: Floats  # likewise: not judged
    relevant: Mapping[int, set[str]]  # by place: ids that labels call relevant


class Scope(NamedTuple):
    """The documents that are asked for."""

    by_source: bool = False
    k: int = 3  # rank below which a relevant document is lost
    since: float | None = None  # unix seconds: a change to compare before and after
    version: str | None = None  # a release to compare with the others, in place of a moment
    with_texts: bool = True  # compare texts, for twins


class PipelineCounts:
    """Queries of one pipeline."""

    def __init__(self) -> None:
        self.with_chunks = 0
        self.after = 0  # of these, since the change that is asked about
        self.minutes: dict[int, int] = {}  # of these, by minute
        self.ranks = np.zeros((RANKS, 2))  # answers with citations by rank; those that cite it


class _Flat(NamedTuple):
    """Retrieved documents of a piece, one row each, in order of record and rank."""

    record: Integers
    document: Integers
    rank: Integers  # from 0
    cited: NDArray[np.int8]  # 1, 0, or -1: not recorded
    relevant: NDArray[np.bool_]


class _Numbers(dict[str, int]):
    """Number of each document of a pipeline; -1 beyond those that fit."""

    def __init__(self, pipeline: str, names: list[tuple[str, str]], most: int) -> None:
        super().__init__()
        self._pipeline = pipeline
        self._names = names
        self._most = most

    def __missing__(self, name: str) -> int:
        if len(self._names) >= self._most:
            return -1
        self[name] = place = len(self._names)
        self._names.append((self._pipeline, name))
        return place


class Gathering:
    """Everything that was counted."""

    def __init__(self, scope: Scope, most_documents: int = MOST_DOCUMENTS) -> None:
        self.scope = scope
        self.names: list[tuple[str, str]] = []  # pipeline and id, by number
        self.sources: list[str | None] = []
        self.signatures = TextSignatures()
        self.tallies = Tallies(RANKS)
        self.cited_days = DayCounts()
        self.compared = ComparedAnswers()
        self.pipelines: dict[str, PipelineCounts] = {}
        self.versions: set[str] = set()  # of queries whose chunks were recorded
        self.queries = 0
        self.left_out = 0
        self.without_source = 0
        self._most = most_documents
        self._places: dict[str, _Numbers] = {}
        self._sources_of: dict[tuple[str, str], int] = {}  # by pipeline and chunk, if by source
        self._missed: dict[tuple[str, str], int] = {}  # relevant chunks that were not retrieved

    @property
    def size_bytes(self) -> int:
        """Memory that it takes, about."""
        return 300 * len(self.names) + self.tallies.size_bytes + self.compared.size_bytes

    def add(self, piece: RecordPiece) -> None:
        """Count some records."""
        self.queries += len(piece.records)
        recorded = np.array([record.chunks is not None for record in piece.records], dtype=np.bool_)
        is_after = self._after(piece)
        self._count_queries(piece, recorded, is_after)
        flat = self._flatten(piece)
        if not len(flat.document):
            return
        flat = _distinct(flat)
        self._count_documents(piece, flat, is_after)
        if not self.scope.by_source:
            cited = flat.cited == 1
            days = (piece.times[flat.record[cited]] // DAY_S).astype(np.int64)
            self.cited_days.add(flat.document[cited], days)
        self.compared.add(
            flat.record,
            flat.document,
            piece.sequences,
            self._group_numbers(piece),
            np.stack([piece.disliked, piece.unfaithful], axis=1),
        )

    def missed(self) -> None:
        """Count the relevant documents that were not retrieved; once, at the end."""
        for (pipeline, chunk), times in self._missed.items():
            place = (
                self._sources_of.get((pipeline, chunk), -1)
                if self.scope.by_source
                else self._place(pipeline)[chunk]
            )
            if place >= 0:
                self.tallies.add_missed(place, times)
        self._missed.clear()
        self.sources += [None] * (len(self.names) - len(self.sources))
        self.tallies.grow(len(self.names))

    def _after(self, piece: RecordPiece) -> NDArray[np.bool_]:
        """True for records since the change that is asked about."""
        if self.scope.version is not None:
            is_version = [version == self.scope.version for _, version in piece.groups]
            return np.array(is_version, dtype=np.bool_)[piece.group_of]
        if self.scope.since is None:
            return np.zeros(len(piece.times), dtype=np.bool_)
        after: NDArray[np.bool_] = piece.times >= self.scope.since
        return after

    def _count_queries(
        self, piece: RecordPiece, recorded: NDArray[np.bool_], is_after: NDArray[np.bool_]
    ) -> None:
        for number in np.unique(piece.group_of[recorded]).tolist():
            (pipeline, version), chosen = piece.groups[number], piece.group_of == number
            chosen &= recorded
            if len(self.versions) < _MOST_VERSIONS:
                self.versions.add(version)
            counts = self.pipelines.setdefault(pipeline, PipelineCounts())
            counts.with_chunks += int(chosen.sum())
            counts.after += int((chosen & is_after).sum())
            minutes, times = np.unique(piece.times[chosen] // MINUTE_S, return_counts=True)
            for minute, number_of in zip(minutes.tolist(), times.tolist(), strict=True):
                counts.minutes[int(minute)] = counts.minutes.get(int(minute), 0) + number_of

    def _flatten(self, piece: RecordPiece) -> _Flat:
        records: list[int] = []
        documents: list[int] = []
        ranks: list[int] = []
        cited: list[int] = []
        relevant: list[bool] = []
        for at, record in enumerate(piece.records):
            chunks, labelled = record.chunks, piece.relevant.get(at)
            if chunks is None:
                continue
            pipeline = piece.groups[piece.group_of[at]][0]
            if labelled:
                self._note_missed(pipeline, labelled.difference(chunk.id for chunk in chunks))
            if not chunks:
                continue
            documents += self._numbers(pipeline, chunks)
            records += [at] * len(chunks)
            ranks += range(len(chunks))
            if record.citations is None:
                cited += [-1] * len(chunks)
            else:
                named = set(record.citations)
                cited += [chunk.id in named for chunk in chunks]
            relevant += (
                [chunk.id in labelled for chunk in chunks] if labelled else [False] * len(chunks)
            )
        flat = _Flat(
            np.array(records, dtype=np.intp),
            np.array(documents, dtype=np.intp),
            np.array(ranks, dtype=np.intp),
            np.array(cited, dtype=np.int8),
            np.array(relevant, dtype=np.bool_),
        )
        counted = flat.document >= 0
        if self.scope.by_source:
            self.left_out += int((flat.document == -1).sum())
            self.without_source += int((flat.document == -2).sum())
        else:
            self.left_out += int((~counted).sum())
        return flat if counted.all() else _chosen(flat, np.flatnonzero(counted))

    def _numbers(self, pipeline: str, chunks: Sequence[RetrievedChunk]) -> list[int]:
        """Numbers of the documents of an answer; new ones are learned."""
        places, known = self._place(pipeline), len(self.names)
        if self.scope.by_source:
            numbers = [-2 if chunk.source is None else places[chunk.source] for chunk in chunks]
            for chunk, number in zip(chunks, numbers, strict=True):
                if number >= 0 and len(self._sources_of) < self._most:
                    self._sources_of[pipeline, chunk.id] = number
            return numbers
        numbers = [places[chunk.id] for chunk in chunks]
        if len(self.names) > known:
            self.sources += [None] * (len(self.names) - len(self.sources))
            for chunk, number in zip(chunks, numbers, strict=True):
                if number >= known:
                    self.sources[number] = chunk.source
                    if self.scope.with_texts:
                        self.signatures.add(number, bytes(chunk.text))
        return numbers

    def _place(self, pipeline: str) -> _Numbers:
        places = self._places.get(pipeline)
        if places is None:
            places = self._places[pipeline] = _Numbers(pipeline, self.names, self._most)
        return places

    def _note_missed(self, pipeline: str, chunks: set[str]) -> None:
        for chunk in chunks:
            key = pipeline, chunk
            if key in self._missed or len(self._missed) < self._most:
                self._missed[key] = self._missed.get(key, 0) + 1

    def _group_numbers(self, piece: RecordPiece) -> Integers:
        numbers = [self.compared.group(*group) for group in piece.groups]
        return np.array(numbers, dtype=np.intp)[piece.group_of]

    def _count_documents(
        self, piece: RecordPiece, flat: _Flat, is_after: NDArray[np.bool_]
    ) -> None:
        rank = np.minimum(flat.rank, RANKS - 1)
        is_relevant = flat.relevant | (flat.cited == 1)
        self.tallies.grow(len(self.names))
        self.tallies.add(
            flat.document,
            rank,
            piece.times[flat.record],
            {
                "rank_sum": flat.rank + 1,
                "with_citations": flat.cited >= 0,
                "cited": flat.cited == 1,
                "relevant": is_relevant,
                "below_k": is_relevant & (flat.rank >= self.scope.k),
                "after": is_after[flat.record],
            },
        )
        known = flat.cited >= 0
        group = piece.group_of[flat.record]
        for number in np.unique(group[known]).tolist():
            chosen = known & (group == number)
            ranks = self.pipelines[piece.groups[number][0]].ranks
            ranks[:, 0] += np.bincount(rank[chosen], minlength=RANKS)
            ranks[:, 1] += np.bincount(rank[chosen & (flat.cited == 1)], minlength=RANKS)


def _distinct(flat: _Flat) -> _Flat:
    """The same with every document once a record, at its best rank."""
    key = flat.record * (int(flat.document.max()) + 1) + flat.document
    distinct, first = np.unique(key, return_index=True)
    if len(distinct) == len(key):
        return flat
    at = np.sort(first)
    cited = np.isin(key[at], key[flat.cited == 1])
    best = _chosen(flat, at)
    return best._replace(
        cited=np.where(cited, np.int8(1), best.cited),
        relevant=np.isin(key[at], key[flat.relevant]),
    )


def _chosen(flat: _Flat, at: Integers) -> _Flat:
    return _Flat(
        flat.record[at], flat.document[at], flat.rank[at], flat.cited[at], flat.relevant[at]
    )
