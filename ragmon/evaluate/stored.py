"""Cases out of production: the stored queries that somebody labelled."""

from collections.abc import Iterator

import msgspec

from ragmon import amended
from ragmon.evaluate.cases import Case, CaseSet, Run
from ragmon.evaluate.errors import DataError
from ragmon.pipeline import effective
from ragmon.records import QueryRecord
from ragmon.stores import Reader

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


def labelled(reader: Reader, since: float, until: float, pipeline: str = "") -> tuple[CaseSet, Run]:
    """The labelled queries of some time, as cases, and as the run that answered them.

    Args:
        reader: of the store.
        since: unix seconds.
        until: unix seconds.
        pipeline: only this one; empty for all.

    Raises:
        DataError: no query of that time has relevant ids or grades.
    """
    run = {
        record.query_id: record
        for record in _records(reader, since, until)
        if pipeline in ("", record.pipeline) and (record.relevant_ids or record.grades)
    }
    if not run:
        raise DataError(
            "no stored query of that time has a label",
            hint="Post relevant_ids or grades to /v1/labels, or widen --since",
        )
    return CaseSet(tuple(_case(record) for record in run.values())), run


def _records(reader: Reader, since: float, until: float) -> Iterator[QueryRecord]:
    """Every query of that time, with later labels in place."""
    for block in reader.blocks(since, until):
        for at, stored in enumerate(reader.records(block.first_sequence)):
            record = _decode(stored)
            if since <= record.timestamp <= until:
                body = block.amendments.get(block.first_sequence + at)
                yield effective(record, amended.decode(body).known) if body else record


def _case(record: QueryRecord) -> Case:
    return Case(
        query=record.query or record.query_id,
        case_id=record.query_id,
        relevant_doc_ids=record.relevant_ids,
        grades=record.grades,
        metadata={"pipeline": record.pipeline, "version": record.version, **(record.tags or {})},
    )
