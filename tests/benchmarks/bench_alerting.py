"""Live detection beside ingest: CPU of counting a record, of judging and saving a minute."""

import logging
import random
import sys
import tempfile
import time
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).parents[2]))

from ragmon.detectors.intake import ObservationBuffer
from ragmon.records import Latency, QueryRecord
from tests.support.examples import NOON, chunks, record
from tests.support.vigil import Vigil

RECORDS = 20_000
BATCH = 200
MINUTES = 20
HISTORY_S = 26 * 3_600.0


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    return [row for tenants in (2, 8, 140) for row in measured(tenants)]


def measured(tenants: int) -> list[tuple[str, str, str]]:
    """Rows for one number of values of a slice."""
    with tempfile.TemporaryDirectory() as folder:
        vigil = Vigil(Path(folder), NOON, slices=("tenant",))
        for first in range(0, RECORDS, BATCH):
            start = NOON - HISTORY_S * (1.0 - first / RECORDS)
            vigil.commit(queries(f"h{first}", start, BATCH, HISTORY_S * BATCH / RECORDS, tenants))
        for seconds in (0.0, 31.0, 60.0):  # history ends half a minute after its last record
            vigil.tick(seconds)
        detection = vigil.alerting.detection
        streams = f"{len(detection.streams.rows):,} streams"
        megabytes = detection.log.nbytes / 1e6
        per_record, a_minute = counted(vigil, tenants), judged(vigil, tenants)
        vigil.end()
    return [
        (f"count a record, {streams}", f"{per_record:.2f} µs", "at most 2 µs"),
        (f"judge and save a minute, {streams}", f"{a_minute:.1f} ms, {megabytes:.0f} MB kept", ""),
    ]


def counted(vigil: Vigil, tenants: int) -> float:
    """Microseconds a record from the commit's observations to the detectors' minutes."""
    records = queries("c", vigil.clock.now() - 50.0, RECORDS, 50.0, tenants)
    pipeline, timeline = vigil.engine.pipeline, vigil.alerting.timeline
    batches = [pipeline.observe(records[at : at + BATCH]) for at in range(0, RECORDS, BATCH)]
    buffer = ObservationBuffer(pipeline.columns)

    def count() -> float:
        started = time.process_time()
        for batch in batches:
            buffer.log(batch)
        timeline._count(buffer.take())
        return time.process_time() - started

    took = [vigil.engine.thread.submit(count).result() for _ in range(5)]
    return min(took) / RECORDS * 1e6


def judged(vigil: Vigil, tenants: int) -> float:
    """Milliseconds of a turn that judges and saves one minute of 300 queries; the mean."""
    took = 0.0
    for minute in range(MINUTES):
        vigil.commit(queries(f"m{minute}", vigil.clock.now(), 300, 60.0, tenants))
        vigil.clock.sleep(60.0)
        started = time.process_time()
        vigil.alerting.turn()
        took += time.process_time() - started
    return 1e3 * took / MINUTES


def queries(name: str, first: float, count: int, span_s: float, tenants: int) -> list[QueryRecord]:
    """Healthy queries, evenly spread."""
    rng = random.Random(name)
    return [
        record(
            f"{name}-{at}",
            first + span_s * at / count,
            pipeline="docs",
            version=rng.choice(["v1", "v2"]),
            tags={"tenant": f"t{rng.randrange(tenants)}"},
            chunks=chunks("a", "b", scores=(0.9, 0.4)),
            citations=["a"],
            relevant_ids=["a"] if rng.random() < 0.9 else ["z"],
            latency_ms=Latency(total=rng.lognormvariate(6.0, 0.4)),
            answer="x",
        )
        for at in range(count)
    ]


if __name__ == "__main__":
    for row in run():
        print(*row, sep=" | ")
