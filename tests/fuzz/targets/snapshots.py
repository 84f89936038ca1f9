"""Saved windows and totals: read back equal, and refused in order when damaged."""

import functools

import msgspec
import numpy as np

from ragmon.records import QueryRecord
from ragmon.windows import Windows
from ragmon.windows.changed_buckets import ChangedBuckets
from ragmon.windows.snapshot import (
    SavedBucket,
    add_saved,
    dump_totals,
    load_bucket,
    load_totals,
)
from tests.fuzz import json_text
from tests.fuzz.source import Source
from tests.fuzz.worlds import NOW, pipeline, windows

REFUSALS = (msgspec.MsgspecError, ValueError)
"""Errors that stand for damage; the store and the start of the daemon translate them."""
WORDS: list[bytes] = []


def seeds() -> list[bytes]:
    """Windows of some records, whole and damaged."""
    return [bytes([damaged]) + bytes((step * at + 1) % 256 for at in range(60))
            for step in (3, 7, 29, 53) for damaged in (0, 1, 2)]  # fmt: skip


def run(data: bytes) -> None:
    """Whole: every window is equal. Damaged: no error but those that say so."""
    source = Source(data)
    kind = source.below(3)
    if kind == 0:
        _check_whole(source)
    else:
        _check_damaged(source, in_totals=kind == 2)


def _filled(source: Source) -> Windows:
    of = pipeline()
    target = windows(of, 4, 7_200.0)
    for _ in range(1 + source.below(4)):
        records = [_record(source) for _ in range(1 + source.below(5))]
        target.fold(of.observe([of.admit(record) for record in records]))
    return target


def _record(source: Source) -> QueryRecord:
    return QueryRecord(
        query_id="q",
        timestamp=NOW - source.number(2) * source.choose((1, 60, 0)),
        pipeline=f"p{source.below(8)}",
        version=source.choose(("", "v1", "v2")),
        tags={"tenant": source.choose(("a", "b", "ü", "x" * 256))} if source.chance(128) else None,
        latency_ms=None,
        chunks=source.choose((None, [])),
        feedback=source.choose((None, 1.0, -1.0)),
    )


def _check_whole(source: Source) -> None:
    target = _filled(source)
    totals, saved = dump_totals(target), list(ChangedBuckets(target).dump())
    again = windows(pipeline(), 4, 7_200.0)
    load_totals(again, totals)
    for bucket in saved:
        load_bucket(again, bucket)
    _assert_totals_equal(target, again)
    for window_s in (300.0, 7_200.0):
        _assert_merged_equal(target, again, window_s)


def _assert_totals_equal(one: Windows, other: Windows) -> None:
    assert one.watermark == other.watermark
    for key, number in one.series.keys.items():
        mine = other.series.keys[key]
        assert np.array_equal(one.totals.rows[number], other.totals.rows[mine]), key


def _assert_merged_equal(one: Windows, other: Windows, window_s: float) -> None:
    merged, again = one.merge(window_s, NOW), other.merge(window_s, NOW)
    for key, number in one.series.keys.items():
        mine = other.series.keys[key]
        assert np.array_equal(merged.rows[number], again.rows[mine]), (key, window_s)
        assert np.array_equal(merged.latency[number], again.latency[mine]), (key, window_s)


@functools.cache
def _examples() -> tuple[bytes, tuple[SavedBucket, ...]]:
    target = _filled(Source(bytes((7 * at + 1) % 256 for at in range(200))))
    return dump_totals(target), tuple(ChangedBuckets(target).dump())


def _check_damaged(source: Source, *, in_totals: bool) -> None:
    totals, saved = _examples()
    target = windows(pipeline(), 4, 7_200.0)
    try:
        if in_totals:
            load_totals(target, json_text.damaged(source, totals))
            return
        bucket = source.choose(saved)
        body = json_text.damaged(source, bucket.body)
        load_bucket(target, bucket._replace(body=body))
        merged = target.merge(7_200.0, NOW)
        add_saved(merged, target.series.keys, [body], target.columns)
    except REFUSALS:
        return
