"""Pages, series and searches of a store of three million queries, in 20 pipelines with 300 slices.

A real daemon on loopback: each address is asked for some twenty times on a connection that is kept,
alone and then while 4,000 records a second come in. Milliseconds are those of the wall clock, of
them the daemon's CPU beside. Some ten minutes; BENCH_RECORDS=100000 takes one.
BENCH_FOLDER=FOLDER keeps the store for the next run.
"""

import contextlib
import dataclasses
import gzip
import http.client
import os
import random
import re
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import numpy as np
from bench_memory import Traffic
from bench_scrape import FLAGS as SLICES
from bench_scrape import cpu_s, settle
from harness import Daemon, daemon, post_all, synthetic
from msgspec import json
from msgspec.structs import replace

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon.build import build_engine
from ragmon.daemon.ingest.engine import Engine
from ragmon.queries.summaries import layout_of, summarize
from ragmon.records import QueryRecord
from ragmon.sources import Submission

RECORDS = int(os.environ.get("BENCH_RECORDS", "3000000"))
PIPELINES, TENANTS, CHANNELS, MODELS = 20, 10, 3, 3
DAYS_S = 30 * 86_400.0
FLAGS = SLICES | {"retention.records": "31d"}
GROUP = 2_000
TIMES = 21
RATE = 4_000  # records a second, while pages are asked for
BATCH = 200
_DISTINCT = 20_000
_SEARCH_MS = 300.0
_WORDS_MS = 1_000.0


@dataclasses.dataclass
class Timing:
    """Milliseconds of the answers of one kind, and of CPU of the daemon for one."""

    wall_ms: list[float]
    cpu_ms: float
    size: int  # bytes of the last answer, compressed
    within_ms: float | None

    def row(self, name: str) -> tuple[str, str, str]:
        """Of the table."""
        middle, high = np.quantile(self.wall_ms, (0.5, 0.95))
        measured = (
            f"{middle:.0f} ms, 95 % {high:.0f}, CPU {self.cpu_ms:.0f}; {self.size / 1e3:.1f} KB"
        )
        goal = f"95 % <= {self.within_ms:.0f} ms" if self.within_ms else ""
        return name, measured, goal


def fill(folder: Path) -> None:
    """Commit queries over thirty days, and make their summaries as the daemon does beside."""
    settings = load(None, FLAGS | {"data_dir": str(folder)}, {}).settings
    engine = build_engine(settings, SystemClock())
    engine.restore()
    now = time.time()
    rng = random.Random(1)
    base = [json.decode(line, type=QueryRecord) for line in synthetic(_DISTINCT, now=now)]
    for first in range(engine.store.shard.next_sequence, RECORDS, GROUP):
        made = [
            _record(base[(first + at) % _DISTINCT], first + at, rng, now) for at in range(GROUP)
        ]
        engine.writer.commits.commit([Submission("bench", 0, lambda _: None, records=made)], now)
        if first % 200_000 == 0:
            engine.snapshot()
    engine.snapshot()
    _summarize(engine)
    engine.store.close()


def _record(example: QueryRecord, number: int, rng: random.Random, now: float) -> QueryRecord:
    return replace(
        example,
        query_id=f"q{number}",
        timestamp=now - DAYS_S * (1 - number / RECORDS),
        pipeline=f"pipeline-{rng.randrange(PIPELINES)}",
        tags={"tenant": f"t{rng.randrange(TENANTS)}", "channel": f"c{rng.randrange(CHANNELS)}"},
        session_id=f"s{number // 5}",
        user_id=f"u{rng.randrange(100_000)}",
        trace_id=f"{rng.getrandbits(128):032x}",
        model=f"m{rng.randrange(MODELS)}",
        error="boom" if rng.random() < 1e-4 else None,
        answer=f"{example.answer} order{number}",
    )


def _summarize(engine: Engine) -> None:
    layout, shard = layout_of(engine.pipeline), engine.store.shard
    with engine.store.reader() as reader:
        while due := reader.due_summaries(layout, shard.next_sequence, 16):
            shard.summaries().begin(due)
            shard.summaries().put(
                [summarize(reader, engine.pipeline, each.first_sequence) for each in due]
            )


def addresses(rng: random.Random, now: float) -> dict[str, tuple[Callable[[], str], float | None]]:
    """Kinds of pages by name: an address, and the milliseconds that it may take."""

    def pipeline() -> str:
        return f"pipeline-{rng.randrange(PIPELINES)}"

    def series() -> str:
        asked = {"metric": "zero_result", "pipeline": pipeline(), "from": now - DAYS_S, "to": now}
        return "/v1/series?" + urlencode(asked)

    def number() -> int:
        return rng.randrange(RECORDS)

    def search(**asked: str) -> str:
        return "/queries?" + urlencode({"since": "30d", **asked}, quote_via=quote)

    return {
        "overview": (lambda: "/", 100.0),
        "page of a pipeline": (lambda: f"/pipelines/{pipeline()}", 150.0),
        "/v1/series over 30 days": (series, 30.0),
        "page of a query": (lambda: f"/queries/q{number()}", 30.0),
        "/v1/queries/ID": (lambda: f"/v1/queries/q{number()}", 30.0),
        "queries, newest": (search, _SEARCH_MS),
        "of a pipeline": (lambda: search(pipeline=pipeline()), _SEARCH_MS),
        "of a version": (lambda: search(version="v1"), _SEARCH_MS),
        "of a slice": (lambda: search(**{"tag.tenant": "t1"}), _SEARCH_MS),
        "of a model": (lambda: search(model="m1"), _SEARCH_MS),
        "of a session": (lambda: search(session=f"s{number() // 5}"), _SEARCH_MS),
        "of a user": (lambda: search(user=f"u{rng.randrange(100_000)}"), _SEARCH_MS),
        "of a trace, none": (lambda: search(trace=uuid.uuid4().hex), _SEARCH_MS),
        "with an error": (lambda: search(failing="error"), _SEARCH_MS),
        "disliked": (lambda: search(feedback="negative"), _SEARCH_MS),
        "of a failure mode": (lambda: search(failure_mode="generation"), _SEARCH_MS),
        "slowest": (lambda: search(order="slowest"), _SEARCH_MS),
        "a common word": (lambda: search(words="object"), _WORDS_MS),
        "two words": (lambda: search(words="iterator encoding"), _WORDS_MS),
        "a rare word": (lambda: search(words=f"order{number()}"), _WORDS_MS),
        "a word of nobody": (lambda: search(words="xylophonist"), _WORDS_MS),
    }


@contextlib.contextmanager
def connected(running: Daemon) -> Iterator[http.client.HTTPConnection]:
    """A connection that is kept."""
    parts = urlsplit(running.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    try:
        yield connection
    finally:
        connection.close()


def fetch(connection: http.client.HTTPConnection, address: str) -> bytes:
    """An answer as it came, compressed."""
    connection.request("GET", address, headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{address}: {answer.status} {body[:300]!r}")
    return body


def timed(running: Daemon, make: Callable[[], str], within_ms: float | None) -> Timing:
    """One kind of page."""
    wall, size = [], 0
    with connected(running) as connection:
        fetch(connection, make())
        before = cpu_s(running)
        for _ in range(TIMES):
            address, started = make(), time.perf_counter()
            size = len(fetch(connection, address))
            wall.append(1e3 * (time.perf_counter() - started))
    return Timing(wall, 1e3 * (cpu_s(running) - before) / TIMES, size, within_ms)


def weight(running: Daemon) -> float:
    """Kilobytes of the overview with all that it needs."""
    with connected(running) as connection:
        page = fetch(connection, "/")
        text = gzip.decompress(page).decode() if page[:2] == b"\x1f\x8b" else page.decode()
        needed = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', text))
        return (len(page) + sum(len(fetch(connection, each)) for each in needed)) / 1e3


def while_reading(running: Daemon, seed: int, seconds: float) -> tuple[float, float, int]:
    """Milliseconds of acknowledgements, median and 99 %, while pages are read; and how many."""
    over, read = threading.Event(), [0]
    kinds = list(addresses(random.Random(seed), time.time()).values())

    def go() -> None:
        with connected(running) as connection:
            while not over.is_set():
                fetch(connection, kinds[read[0] % len(kinds)][0]())
                read[0] += 1

    traffic, reader = Traffic(), threading.Thread(target=go)
    count = int(RATE * seconds / BATCH)
    bodies = [traffic.body(iter([time.time()] * BATCH)) for _ in range(count)]
    if seed:
        reader.start()
    try:
        load = post_all(running.url, bodies, rate=RATE / BATCH)
    finally:
        over.set()
        if seed:
            reader.join()
    return load.latency(0.5), load.latency(0.99), read[0]


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    flags = [part for key, value in FLAGS.items() for part in (f"--{key}", value)]
    with contextlib.ExitStack() as stack:
        folder = Path(
            os.environ.get("BENCH_FOLDER") or stack.enter_context(tempfile.TemporaryDirectory())
        )
        folder.mkdir(parents=True, exist_ok=True)
        fill(folder)
        running = stack.enter_context(daemon(folder, *flags))
        settle(running)
        rows = [
            timed(running, make, within).row(name)
            for name, (make, within) in addresses(random.Random(1), time.time()).items()
        ]
        rows.append(
            ("overview with all it needs, compressed", f"{weight(running):.1f} KB", "<= 60 KB")
        )
        for seed, name in enumerate(("alone", "while pages and searches are read")):
            middle, high, read = while_reading(running, seed, 20.0)
            measured = f"p50 {middle:.0f} ms, p99 {high:.0f} ms; {read} read"
            rows.append((f"acknowledgement at {RATE:,} records/s {name}", measured, "p99 <= 50 ms"))
        rows.append(("resident memory", f"{running.memory_mb():.0f} MB", ""))
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:60} {row[1]:50} {row[2]}")
