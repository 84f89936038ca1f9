"""Does history of six days cost more a record than live traffic, with 300 series?

Without HTTP, as a followed file or a Kafka topic comes: lines are decoded, committed, counted and
judged in one thread. Both run in turns of a tenth, in one process, so that the machine's mood is
shared.
"""

import functools
import itertools
import os
import random
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import cpu_per, synthetic
from msgspec import json
from msgspec.structs import replace

from ragmon.alerts.timeline import AlertTimeline
from ragmon.clock import SystemClock
from ragmon.config import Settings
from ragmon.daemon.alerting.build import build_detection, build_timing
from ragmon.daemon.build import build_engine
from ragmon.daemon.ingest.group_parts import Counted
from ragmon.detectors.intake import ObservationBuffer
from ragmon.records import QueryRecord
from ragmon.sources import Submission

RECORDS = int(os.environ.get("BENCH_RECORDS", "1000000"))
LIVE = 100_000
RATE = 2_000.0  # records a second of live traffic
GROUP = 2_000
TURN = 20_000  # records of history that the daemon buffers for the detectors
SAVED = 200_000  # records between two snapshots
DAYS_S = 6 * 86_400.0
TURNS = 10  # in which live traffic and history take place
_decode = json.Decoder(QueryRecord).decode


class Rig:
    """Store, windows and detectors of a daemon, driven by hand."""

    def __init__(self, folder: Path) -> None:
        settings = Settings(data_dir=folder, slices=("tenant", "channel"))
        self.engine = build_engine(settings, SystemClock())
        self.engine.restore()
        self.buffer = ObservationBuffer(self.engine.pipeline.columns)
        detection = functools.partial(build_detection, settings, self.buffer.columns)
        self.timeline = AlertTimeline(detection, build_timing(settings))
        self.engine.committer.listen(self._buffer)
        self.cpu_s = {"decode": 0.0, "commit": 0.0, "detect": 0.0}

    def commit(self, lines: Sequence[bytes], times: Sequence[float], now: float) -> None:
        """Decode lines, as if they were logged at those times, and commit them."""
        started = time.process_time()
        records = [_decode(line) for line in lines]
        decoded = time.process_time()
        group = [
            replace(record, query_id=uuid.uuid4().hex, timestamp=at)
            for record, at in zip(records, times, strict=True)
        ]
        made = time.process_time()
        self.engine.writer.commits.commit(
            [Submission("bench", 0, lambda _: None, records=group)], now
        )
        self.cpu_s["decode"] += decoded - started
        self.cpu_s["commit"] += time.process_time() - made

    def turn(self, now: float) -> None:
        """Judge what was committed."""
        started = time.process_time()
        for _ in self.timeline.advance(self.buffer.take(), now):
            pass
        self.cpu_s["detect"] += time.process_time() - started

    def settle(self) -> None:
        """Count what waits, and save it."""
        started = time.process_time()
        self.engine.snapshot()
        self.cpu_s["commit"] += time.process_time() - started

    def _buffer(self, counted: Counted) -> None:
        if counted.logged is not None:
            self.buffer.log(counted.logged)


def lines(count: int) -> list[bytes]:
    """Records of 20 pipelines, each with 10 tenants and 3 channels."""
    rng = random.Random(7)
    texts = []
    for line in synthetic(count, seed=5, now=0.0):
        record = json.decode(line)
        record["tags"] = {"tenant": f"t{rng.randrange(10)}", "channel": f"c{rng.randrange(3)}"}
        texts.append(json.encode(record))
    return texts


def live(rig: Rig, texts: Sequence[bytes]) -> Iterator[None]:
    """Records at 2,000 a second, judged once a second; a tenth at a time."""
    began = time.time()
    for done in range(0, LIVE, GROUP // 5):
        now = began + done / RATE
        at = done % len(texts)
        some = texts[at : at + GROUP // 5]
        rig.commit(some, [now] * len(some), now)
        if done % GROUP == 0:
            rig.turn(now)
        if done % (LIVE // TURNS) == 0:
            yield
    rig.settle()


def history(rig: Rig, texts: Sequence[bytes], count: int) -> Iterator[None]:
    """Records spread over six days, in the order of their times; a tenth at a time."""
    now = time.time()
    for done in range(0, count, GROUP):
        at = done % len(texts)
        times = [now - DAYS_S * (1 - (done + place) / count) for place in range(GROUP)]
        rig.commit(texts[at : at + GROUP], times, now)
        if done % TURN == 0:
            rig.turn(now)
        if done % SAVED == 0:
            rig.settle()
        if done % (count // TURNS) == 0:
            yield
    rig.turn(now)
    rig.settle()


def cost(rig: Rig, count: int) -> tuple[float, str]:
    """CPU of a record in us: all of it, and by part."""
    parts = {name: 1e6 * seconds / count for name, seconds in rig.cpu_s.items()}
    return sum(parts.values()), ", ".join(f"{name} {us:.1f}" for name, us in parts.items())


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    texts = lines(20_000)
    floor = cpu_per(len(texts), lambda: [_decode(text) for text in texts])
    with tempfile.TemporaryDirectory() as name:
        now, past = Path(name) / "live", Path(name) / "history"
        now.mkdir()
        past.mkdir()
        rigs = Rig(now), Rig(past)
        turns = live(rigs[0], texts), history(rigs[1], texts, RECORDS)
        for _ in itertools.zip_longest(*turns):
            pass
        series = len(rigs[1].engine.windows.series)
        of_live, live_parts = cost(rigs[0], LIVE)
        of_history, history_parts = cost(rigs[1], RECORDS)
        for rig in rigs:
            rig.engine.store.close()
    return [
        ("msgspec decode only (floor)", f"{floor:.1f} us/record", ""),
        (f"live, {series} series", f"{of_live:.1f} us/record ({live_parts})", ""),
        (
            f"{RECORDS:,} records over six days",
            f"{of_history:.1f} us/record ({history_parts})",
            "",
        ),
        ("history against live", f"{of_history / of_live:.2f} times", "<= 1.3"),
        ("live against the floor", f"{of_live / floor:.1f}", ""),
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:40} {row[1]:70} {row[2]}")
