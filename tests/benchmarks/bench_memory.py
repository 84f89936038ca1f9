"""Does the daemon stay under 300 MB with 500 series over seven days, caught up and read?

A real daemon on loopback: history over a week as fast as it takes it, detection until it has
caught up, then 2,000 records a second while `/metrics`, a report of 30 days and the page are asked
for once a second. Some three minutes on a quiet machine; BENCH_RECORDS=3000000 is the full promise.
"""

import dataclasses
import os
import random
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from bench_scrape import record
from harness import Daemon, daemon, post_all
from msgspec import json
from msgspec.structs import replace

RECORDS = int(os.environ.get("BENCH_RECORDS", "400000"))
READ_S = float(os.environ.get("BENCH_READ_S", "45"))
PIPELINES, TENANTS, CHANNELS = 20, 20, 3  # and one version: 24 values a pipeline
SERIES = PIPELINES * (1 + 1 + TENANTS + CHANNELS)
DAYS_S = 7 * 86_400.0
BATCH = 2_000
RATE = 2_000  # records a second of live traffic
READS = ("/metrics", "/v1/report?window=30d", "/", "/v1/alerts")
_CAUGHT_UP_S = 900.0
_TEMPLATES = 4_000
FLAGS = {
    "slices": "tenant,channel",
    "retrieval.relevant_score": "0.5",
    "retrieval.low_score": "0.2",
    "judge.grounding.enabled": "false",
}


@dataclasses.dataclass
class Memory:
    """Resident megabytes: now, and the most since the last look."""

    now: float
    most: float


class Traffic:
    """Bodies of records of all series, with fresh ids."""

    def __init__(self) -> None:
        rng = random.Random(3)
        tags = [
            {"tenant": f"t{rng.randrange(TENANTS)}", "channel": f"c{rng.randrange(CHANNELS)}"}
            for _ in range(_TEMPLATES)
        ]
        self._parts = []
        for at, of in enumerate(tags):
            made = replace(
                record(at, rng, PIPELINES, 0.0), query_id="@id@", timestamp=0.125, tags=of
            )
            head, rest = json.encode(made).split(b"@id@")
            self._parts.append((head, *rest.split(b"0.125", 1)))
        self._next = 0

    def body(self, moments: Iterator[float]) -> bytes:
        """One body with a record for each moment."""
        lines = []
        for moment in moments:
            head, middle, tail = self._parts[self._next % _TEMPLATES]
            self._next += 1
            lines.append(head + uuid.uuid4().hex.encode() + middle + b"%.3f" % moment + tail)
        return b"\n".join(lines)


def memory(running: Daemon) -> Memory:
    """What is resident now and was at most; the next look begins anew."""
    seen = Memory(running.memory_mb(), running.memory_mb("VmHWM"))
    Path(f"/proc/{running.process.pid}/clear_refs").write_text("5")
    return seen


def send_history(running: Daemon, traffic: Traffic) -> None:
    """A week, oldest first."""
    now = time.time()
    for first in range(0, RECORDS, 20 * BATCH):
        bodies = []
        for begin in range(first, min(first + 20 * BATCH, RECORDS), BATCH):
            share = (1.0 - at / RECORDS for at in range(begin, begin + BATCH))
            bodies.append(traffic.body(now - DAYS_S * each for each in share))
        post_all(running.url, bodies, connections=2)


def await_detection(running: Daemon) -> None:
    """Until detection judges the present, at most ten minutes."""
    for _ in range(1_200):
        page = running.get("/metrics").decode()
        at = [line for line in page.splitlines() if line.startswith("ragmon_detection_timestamp_s")]
        if at and time.time() - float(at[0].split()[1]) < _CAUGHT_UP_S:
            return
        time.sleep(0.5)


def read_and_send(running: Daemon, traffic: Traffic) -> None:
    """Live traffic, with every reader once a second."""
    over = threading.Event()

    def read() -> None:
        while not over.wait(1.0):
            for path in READS:
                running.get(path)

    readers = threading.Thread(target=read)
    readers.start()
    try:
        ends = time.time() + READ_S
        while time.time() < ends:
            now = time.time()
            post_all(running.url, [traffic.body(iter([now] * (RATE // 4)))], connections=1)
            time.sleep(max(0.0, now + 0.25 - time.time()))
    finally:
        over.set()
        readers.join()


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    traffic = Traffic()
    flags = [part for key, value in FLAGS.items() for part in (f"--{key}", value)]
    with tempfile.TemporaryDirectory() as name, daemon(Path(name), *flags) as running:
        begin = memory(running)
        send_history(running, traffic)
        await_detection(running)
        caught_up = memory(running)
        read_and_send(running, traffic)
        reading = memory(running)
    bytes_each = (reading.now - begin.now) * 2**20 / SERIES
    return [
        ("resident after start", f"{begin.now:.0f} MB", ""),
        (
            f"while {RECORDS:,} records over 7 days are caught up, at most",
            f"{caught_up.most:.0f} MB ({caught_up.now:.0f} MB at its end)",
            "<= 300 MB",
        ),
        (
            f"with readers once a second and {RATE:,} records a second, at most",
            f"{reading.most:.0f} MB ({reading.now:.0f} MB at its end)",
            "<= 300 MB",
        ),
        (f"each of {SERIES} series", f"{bytes_each / 1024:.0f} KiB", ""),
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:70} {row[1]:34} {row[2]}")
