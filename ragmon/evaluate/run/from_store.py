"""Cases out of production: stored queries with a label."""

from collections.abc import Iterator

import msgspec

from ragmon.evaluate.cases import Case, CaseSet, Labelled
from ragmon.evaluate.errors import DataError
from ragmon.pipeline import effective
from ragmon.records import Amendments, QueryRecord
from ragmon.stores import Reader, amendments

_decode = msgspec.msgpack.Decoder(QueryRecord).decode


def labelled(reader: Reader, since: float, until: float, pipeline: str = "") -> Labelled:
    """The labelled queries of some time, as cases, and as the run that answered them.

    Args:
        reader: of the store.
        since: unix seconds.
        until: unix seconds.
        pipeline: only this one; empty for all.

    Raises:
        DataError: no query of that time has relevant ids, grades or a verdict.
    """
    run, faithful = {}, {}
    for record, verdict in _records(reader, since, until):
        if pipeline not in ("", record.pipeline):
            continue
        if verdict is not None:
            faithful[record.query_id] = verdict
        if verdict is not None or record.relevant_ids or record.grades:
            run[record.query_id] = record
    if not run:
        raise DataError(
            "no stored query of that time has a label",
            hint="Post relevant_ids, grades or faithful to /v1/labels, or widen --since",
        )
    return Labelled(CaseSet(tuple(_case(record) for record in run.values())), run, faithful)


def _records(
    reader: Reader, since: float, until: float
) -> Iterator[tuple[QueryRecord, float | None]]:
    """Every query of that time with its later labels, and the newest human verdict."""
    for block in reader.blocks(since, until):
        for at, stored in enumerate(reader.records(block.first_sequence)):
            record = _decode(stored)
            if since <= record.timestamp <= until:
                body = block.amendments.get(block.first_sequence + at)
                known = amendments.decode(body).known if body else Amendments()
                yield effective(record, known), _faithful(known)


def _faithful(known: Amendments) -> float | None:
    """The newest verdict of a labeller, as live metrics count it."""
    verdicts = [label for label in known.labels if label.faithful is not None]
    return max(verdicts, key=lambda label: label.timestamp).faithful if verdicts else None


def _case(record: QueryRecord) -> Case:
    return Case(
        query=record.query or record.query_id,
        case_id=record.query_id,
        relevant_doc_ids=record.relevant_ids,
        grades=record.grades,
        metadata={"pipeline": record.pipeline, "version": record.version, **(record.tags or {})},
    )
