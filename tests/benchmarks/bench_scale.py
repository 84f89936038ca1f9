"""Does a record cost the same with three million stored, and how fast is a restart then?"""

import dataclasses
import os
import re
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

from harness import Daemon, batches, cpu_per, daemon, post_all, synthetic
from msgspec import json
from msgspec.structs import replace

from ragmon.clock import SystemClock
from ragmon.config import Settings
from ragmon.daemon.build import build_engine
from ragmon.records import QueryRecord
from ragmon.sources import Submission
from ragmon.windows.estimates import estimate

SMALL = 10_000
LARGE = int(os.environ.get("BENCH_RECORDS", "3000000"))
GROUP = 2_000
BATCH = 200
DAYS_S = 6 * 86_400.0
_RECENT_S = 900.0  # behind the clock, where detectors are no longer in history


@dataclasses.dataclass
class Cost:
    """Of one daemon: seconds to ready, CPU of a record in us, memory in MB."""

    running: Daemon
    ready: float
    best: float = float("inf")
    memory: float = 0.0


def fill(folder: Path, count: int) -> float:
    """Commit records spread over six days, without HTTP; returns us CPU a record."""
    engine = build_engine(Settings(data_dir=folder), SystemClock())
    engine.restore()
    now = time.time()
    base = [json.decode(line, type=QueryRecord) for line in synthetic(20_000, seed=5, now=now)]
    commits = engine.writer.commits
    started, done = time.process_time(), 0
    while done < count:
        group = [
            replace(
                record,
                query_id=uuid.uuid4().hex,
                timestamp=now - DAYS_S * (1 - (done + at) / count),
            )
            for at, record in enumerate(base[done % len(base) : done % len(base) + GROUP])
        ]
        commits.commit([Submission("bench", 0, lambda _: None, records=group)], now)
        done += len(group)
        if done % 200_000 == 0:
            engine.snapshot()
    engine.snapshot()
    engine.store.close()
    return 1e6 * (time.process_time() - started) / count


def http_costs(folders: list[Path]) -> list[Cost]:
    """What a record costs over each store (best of five, in turn: the machine's mood is shared)."""
    with ExitStack() as daemons:
        costs = []
        for folder in folders:
            started = time.perf_counter()
            running = daemons.enter_context(daemon(folder))
            costs.append(Cost(running, time.perf_counter() - started))
        for cost in costs:
            _await_readers(cost.running)
        for turn in range(5):
            for at, cost in enumerate(costs):
                records = synthetic(12_000, seed=10 * turn + at, now=time.time())
                before = cost.running.cpu_s
                load = post_all(cost.running.url, batches(records, BATCH))
                cost.best = min(cost.best, 1e6 * (cost.running.cpu_s - before) / load.accepted)
        for cost in costs:
            cost.memory = cost.running.memory_mb()
        return costs


def _await_readers(running: Daemon) -> None:
    """Judge and detectors look at what was stored without them, once; no cost of ingest."""
    for _ in range(600):
        page = running.get("/metrics").decode()
        found = re.findall(r"^(ragmon_\w+) (\S+)$", page, re.MULTILINE)
        values = {name: float(value) for name, value in found}
        judged = values.get("ragmon_judge_queue_length", 0.0) < BATCH
        if judged and time.time() - values["ragmon_detection_timestamp_seconds"] < _RECENT_S:
            return
        time.sleep(0.5)


def evaluation_cost(folder: Path) -> tuple[int, float]:
    """Series, and ms CPU to merge and estimate every window of them."""
    settings = Settings(data_dir=folder)
    engine = build_engine(settings, SystemClock())
    engine.restore()
    windows, now = engine.windows, time.time()

    def evaluate() -> None:
        for length in settings.windows:
            estimate(windows.merge(length, now), windows.columns)

    evaluate()
    took = cpu_per(1, evaluate) / 1_000
    engine.store.close()
    return len(windows.series), took


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    with tempfile.TemporaryDirectory() as name:
        few, folder = Path(name) / "few", Path(name) / "many"
        few.mkdir()
        folder.mkdir()
        fill(few, SMALL)
        filling = fill(folder, LARGE)
        small, large = http_costs([few, folder])
        series, evaluation = evaluation_cost(folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
    per_record = size / (LARGE + 5 * 12_000)
    return [
        (f"cost with {SMALL:,} stored", f"{small.best:.1f} us/record", ""),
        (
            f"cost with {LARGE:,} stored",
            f"{large.best:.1f} us/record ({large.best / small.best:.2f} times)",
            "flat",
        ),
        ("back-fill without HTTP", f"{filling:.1f} us/record", ""),
        (f"restart with {LARGE:,} stored", f"{large.ready:.1f} s to ready", "<= 20 s"),
        (f"memory, {series} series and 6 days of buckets", f"{large.memory:.0f} MB", "<= 300 MB"),
        (f"evaluation of {series} series x 4 windows, CPU", f"{evaluation:.0f} ms", "<= 50 ms"),
        ("disk", f"{per_record:.0f} B/record", "<= 1,200 B"),
    ]


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:48} {row[1]:40} {row[2]}")
