"""Documents of stored queries, gathered block by block."""

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from ragmon.documents.gathering import Gathering, RecordPiece, RetrievalRecord
from ragmon.pipeline import Pipeline
from ragmon.queries.blocks import QueryFilter, current, members_of
from ragmon.records import Grades
from ragmon.stores import Block, Reader, amendments
from ragmon.windows.observations import Observations

_split = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode = msgspec.msgpack.Decoder(RetrievalRecord).decode
_RELEVANCE = (b"relevant_ids", b"grades")  # names of the fields, which few amendments hold


def gather(
    reader: Reader,
    pipeline: Pipeline,
    asked: QueryFilter,
    gathering: Gathering,
    on_block: Callable[[], None] = lambda: None,
    *,
    read: set[int] | None = None,
) -> None:
    """Count the documents of the queries that fit; one block at a time is open.

    Args:
        reader: of the store.
        pipeline: whose signals tell which answers are disliked and unfaithful.
        asked: pipeline, times, and the pipelines that may be read.
        gathering: counts them.
        on_block: called before each block; it may raise to give up.
        read: first sequence numbers of blocks that are passed over, as they were counted before;
            those that are counted now are added.
    """
    read = set() if read is None else read
    catalogue = pipeline.catalogue
    columns = [catalogue.index("negative_feedback"), catalogue.index("unfaithful")]
    with reader.moment():
        for outline in reader.outlines(asked.since, asked.until):
            if outline.first_sequence in read:
                continue
            on_block()
            read.add(outline.first_sequence)
            block = reader.block(outline.first_sequence)
            if block is None:
                continue  # damaged, which is counted
            members = members_of(block, asked)
            if members is not None and not members.any():
                continue
            observations = current(reader, pipeline, block, columns)
            fits = (observations.timestamps >= asked.since) & (
                observations.timestamps < asked.until
            )
            if members is not None:
                fits &= members
            if fits.any():
                piece = _piece(reader, block, observations, np.flatnonzero(fits))
                if piece is not None:
                    gathering.add(piece)


def _piece(
    reader: Reader, block: Block, observations: Observations, chosen: np.ndarray
) -> RecordPiece | None:
    """The chosen records of a block; None where they are damaged."""
    read = reader.contents(block.first_sequence)
    if read is None:
        return None
    body, revised = read
    places = chosen.tolist()
    packed: list[msgspec.Raw | bytes] = [*_split(body)]  # the most are of other pipelines
    for at, record in revised.items():
        packed[at] = record
    records = [_decode(packed[at]) for at in places]
    return RecordPiece(
        records=records,
        sequences=block.first_sequence + chosen,
        times=observations.timestamps[chosen],
        groups=[(dims[0], dims[1]) for dims in observations.dims],
        group_of=observations.dim_index[chosen].astype(np.intp),
        disliked=observations.values[chosen, 0],
        unfaithful=observations.values[chosen, 1],
        relevant=_relevant(block, records, places),
    )


def _relevant(
    block: Block, records: list[RetrievalRecord], places: list[int]
) -> Mapping[int, set[str]]:
    """Ids of the chunks that are relevant by label, by place of their record."""
    relevant: dict[int, set[str]] = {}
    for at, (place, record) in enumerate(zip(places, records, strict=True)):
        ids, grades = record.relevant_ids, record.grades
        body = block.amendments.get(block.first_sequence + place)
        if body is not None and any(name in body for name in _RELEVANCE):
            ids, grades = _newest_label(body, ids, grades)
        if ids or grades:
            named = set(ids or ())
            named.update(chunk for chunk, grade in (grades or {}).items() if grade > 0.0)
            relevant[at] = named
    return relevant


def _newest_label(
    body: bytes, ids: list[str] | None, grades: Grades | None
) -> tuple[list[str] | None, Grades | None]:
    """The truth of the newest label that tells one, or else that of the record."""
    truths = [
        label
        for label in amendments.decode(body).known.labels
        if label.relevant_ids is not None or label.grades is not None
    ]
    if not truths:
        return ids, grades
    newest = max(truths, key=lambda label: label.timestamp)
    return newest.relevant_ids, newest.grades
