"""Bytes of the store: blocks, amendments, pages of the id index and spans, damaged."""

import functools
from collections.abc import Callable

import msgspec
import numpy as np
import zstandard

from ragmon import queries
from ragmon.pipeline import amend
from ragmon.records import Amendments, Chunk, Feedback, Label, QueryRecord
from ragmon.sources.otlp.spans import Span
from ragmon.sources.otlp.spans import pack as pack_spans
from ragmon.sources.otlp.spans import unpack as unpack_spans
from ragmon.stores import amendments
from ragmon.stores.identity import find_in_page, pack_run
from ragmon.stores.packing import read_records
from ragmon.stores.sealing import MARK, seal
from ragmon.windows.observations import join, pack, unpack
from tests.fuzz import json_text
from tests.fuzz.source import Source
from tests.fuzz.worlds import NOW, pipeline

REFUSALS = (msgspec.MsgspecError, ValueError, TypeError, zstandard.ZstdError)
"""Errors that the store reports as damage."""
WORDS: list[bytes] = []
_COUNT = 5  # records of the example
_zip = zstandard.ZstdCompressor().compress


def seeds() -> list[bytes]:
    """Each kind of bytes, hardly changed and much changed."""
    return [bytes([kind]) + bytes((step * at + 1) % 256 for at in range(size))
            for kind in range(len(_KINDS)) for step,
            size in ((3, 2), (7, 20), (53, 20))]  # fmt: skip


def run(data: bytes) -> None:
    """Read, or refused as damage; never anything else."""
    source = Source(data)
    check, body = source.choose(_kinds())
    try:
        check(json_text.damaged(source, body))
    except REFUSALS:
        return


def _observations(body: bytes) -> None:
    of = pipeline()
    observations = unpack(body, of.columns)
    observations.select(np.arange(len(observations))[::2])
    join([body, body])


def _records(body: bytes) -> None:
    for record in read_records(_zip(body), 0, _COUNT):
        queries.describe([(bytes(record), None)], pipeline())


def _compressed(body: bytes) -> None:
    read_records(body, 0, _COUNT)


def _sealed(body: bytes) -> None:
    """A changed body is refused; without its mark it may pass for one of an older format."""
    whole = _kinds()[-1][1]
    read_records(body, 0, _COUNT)
    assert body == whole or body[:1] != MARK, "a damaged block is read"


def _amendment(body: bytes) -> None:
    of = pipeline()
    amendments.decode(body)
    row = np.zeros(len(of.columns))
    amendments.apply(amendments.decode_moved(body), row, np.arange(len(row)))
    queries.describe([(msgspec.msgpack.encode(_record("q")), body)], of)


def _page(body: bytes) -> None:
    find_in_page(body, 5)


def _spans(body: bytes) -> None:
    unpack_spans([body, body])


def _record(query_id: str) -> QueryRecord:
    chunks = [Chunk("c-1", 0.5, "Paris"), Chunk("c-2")]
    return QueryRecord(
        query_id=query_id, timestamp=NOW, answer="Paris [1]", chunks=chunks, tags={"tenant": "a"}
    )


_KINDS: tuple[Callable[[bytes], None], ...] = (
    _observations, _records, _compressed, _amendment, _page, _spans, _sealed,
)  # fmt: skip


@functools.cache
def _kinds() -> tuple[tuple[Callable[[bytes], None], bytes], ...]:
    of = pipeline()
    records = [of.admit(_record(f"q-{at}")) for at in range(_COUNT)]
    observed = of.observe(records)
    known = Amendments()
    for change in (
        Feedback(query_id="q", rating=1.0, timestamp=NOW),
        Label(query_id="q", grades={"c-1": 2.0}, faithful=0.5, timestamp=NOW),
    ):
        known, _ = amend(known, change)
    after = of.observe(records[:1], [known])
    layout = amendments.layout_of(of.columns)
    amended = amendments.encode(known, layout, observed.values[0], after.values[0])
    numbers = np.arange(1, 9, dtype=np.uint64)
    page = pack_run(numbers, numbers.astype(np.int64))[0][1]
    span = Span(bytes(16), bytes(8), b"", "chain", 1, 2, {"input.value": "q", "n": 1})
    encoded = msgspec.msgpack.encode(records)
    bodies = (
        pack(observed, of.columns), encoded, _zip(encoded), amended, page,
        pack_spans([span])[0].body,
        seal(_zip(encoded), "body", 0),
    )  # fmt: skip
    return tuple(zip(_KINDS, bodies, strict=True))
