"""What is stored and counted in the end, against what was sent and what one process counted."""

import functools
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragmon.alerts.timeline import AlertTimeline
from ragmon.config import Settings
from ragmon.daemon.alerting.build import build_detection, build_maintenance, build_timing
from ragmon.daemon.alerting.feed import feed
from ragmon.daemon.build import build_pipeline, build_windows
from ragmon.daemon.ingest.counting import WindowCounting
from ragmon.detectors import MINUTE_S, StreamKey
from ragmon.detectors.intake import ObservationBuffer
from ragmon.stores.identity import hash_id
from ragmon.stores.packing import BlockSpan, read_hashes
from ragmon.stores.ports import Store
from ragmon.stores.postgresql.connecting import DatabaseAccess
from ragmon.stores.postgresql.opening import open_store
from ragmon.stores.sqlite import Options, build
from ragmon.windows import Windows
from tests.chaos.fleet import LAG_S, LEASE_S, Fleet
from tests.chaos.traffic import Traffic, query_id
from tests.support.vigil import known_by_stream
from tests.support.window_numbers import integers, sums

_HASHES = "SELECT first_sequence, records, first_timestamp, last_timestamp, hashes FROM {}.blocks"
_JUDGED_MINUTES = 10  # beyond the last query, so that every minute with queries is closed


class Stored(NamedTuple):
    """Ids in the database."""

    lost: int
    doubled: int
    waiting: int  # feedback that has not found its query


def stored(fleet: Fleet, traffic: Traffic) -> Stored:
    """Count the ids of every shard, by the hashes of the blocks."""
    ask, schema = fleet.server.execute, fleet.schema
    [(seed,)] = ask(f"SELECT convert_from(value, 'UTF8') FROM {schema}.meta WHERE name = 'seed'")
    hashes: Counter[int] = Counter()
    for *span, packed in ask(_HASHES.format(schema)):
        hashes.update(read_hashes(packed, BlockSpan(*span)).tolist())
    sent = [hash_id(query_id(number), int(seed)) for number in range(traffic.ids)]
    [(waiting,)] = ask(f"SELECT count(*) FROM {schema}.waiting WHERE kind <> 'erased'")
    return Stored(
        lost=sum(each not in hashes for each in sent),
        doubled=sum(count - 1 for count in hashes.values()),
        waiting=waiting,
    )


def check_equal(fleet: Fleet, folder: Path) -> None:
    """Windows and detectors of the cluster are those of the daemon that read the topic alone.

    All daemons have ended. Both stores are read as a start reads them: the last snapshot, and what
    was committed after it.
    """
    settings = Settings(
        data_dir=folder,
        detectors={"first_days": 0, "lag": LAG_S},
        judge={"grounding": {"enabled": False}},
    )
    together = open_store(
        DatabaseAccess(dsn=fleet.server.url),
        fleet.schema,
        ttl_s=60.0,
        wait_s=3.0 * LEASE_S,
        owner="verdict",
        clock=fleet.clock,
    )
    try:
        alone = build(Options(), fleet.folder / "reference", waits=False)
        try:
            _compare_windows(settings, alone, together, fleet.clock.now())
            _compare_detectors(settings, alone, together, fleet.clock.now())
        finally:
            alone.close()
    finally:
        together.close()


def _compare_windows(settings: Settings, alone: Store, together: Store, now: float) -> None:
    expected, got = _windows(settings, alone), _windows(settings, together)
    assert integers(got, now) == integers(expected, now)
    rows, others = sums(expected, now), sums(got, now)
    assert others.keys() == rows.keys()
    for key, row in rows.items():
        np.testing.assert_allclose(others[key], row, rtol=1e-12, atol=1e-9, err_msg=str(key))


def _windows(settings: Settings, store: Store) -> Windows:
    windows = build_windows(settings, build_pipeline(settings))
    WindowCounting(store.state, windows).count()
    return windows


def _compare_detectors(settings: Settings, alone: Store, together: Store, now: float) -> None:
    expected, got = _detectors(settings, alone, now), _detectors(settings, together, now)
    assert expected
    assert got.keys() == expected.keys(), sorted(map(str, got.keys() ^ expected.keys()))
    different = [str(key) for key, known in expected.items() if got[key] != known]
    assert not different, f"{len(different)} of {len(expected)} streams: {different[:3]}"


def _detectors(settings: Settings, store: Store, now: float) -> dict[StreamKey, list[bytes]]:
    """All that detectors know, once every minute with queries is closed.

    But for the traffic of a source, which each process sees of its own sources only.
    """
    columns = build_pipeline(settings).columns
    buffer = ObservationBuffer(columns)
    line = AlertTimeline(
        functools.partial(build_detection, settings, buffer.columns),
        build_timing(settings),
        build_maintenance(settings),
    )
    saved = store.state.alert_log().load()
    positions = {}
    if saved is not None:
        line.load(saved.state, saved.book, saved.buckets, catching_up=saved.catching_up)
        positions = dict(saved.positions)
    for entry in store.state.follow(positions):
        feed(buffer, entry.change, columns)
    for minute in range(_JUDGED_MINUTES):
        for _ in line.advance(buffer.take(), now + minute * MINUTE_S):
            pass
    known = known_by_stream(line.detection)
    return {key: each for key, each in known.items() if key.dimension != "source"}
