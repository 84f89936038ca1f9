"""Searches over many stored queries, and what their summaries cost.

``python -m tests.benchmarks.explorer_searches --records 3000000 --folder FOLDER`` makes a store and
its summaries, and times the first page of each search; the folder is kept and used again.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ragmon import queries
from ragmon.decode import Decoder
from ragmon.event_time import Bounds
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.summaries import layout_of, summarize
from ragmon.queries.words import WordSearch
from ragmon.records import QueryRecord
from tests.benchmarks.harness import synthetic
from tests.support.examples import pipeline
from tests.support.rig import Rig, sent

NOW = 1_790_000_000.0
_BLOCK = 1_000
_DISTINCT = 20_000
_TIMES = 21


def main() -> None:
    """Make what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "explorer")
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True, parents=True)
    rig = Rig(asked.folder, pipeline(slices=("tenant",), slow_ms=5_000.0))
    if rig.store.shard.next_sequence < asked.records:
        fill(rig, asked.records)
    summaries(rig)
    searches(rig)


def fill(rig: Rig, count: int) -> None:
    """Commit queries in blocks of a thousand."""
    decode = Decoder(QueryRecord)
    bounds = Bounds(0.0, NOW + 1e6)
    raw = synthetic(_DISTINCT, now=NOW)
    examples = [decode(each, NOW, bounds) for each in raw]
    rng, started = random.Random(1), time.perf_counter()
    for first in range(rig.store.shard.next_sequence, count, _BLOCK):
        block = [
            msgspec.structs.replace(
                examples[rng.randrange(_DISTINCT)],
                query_id=f"q{first + at}",
                timestamp=NOW - (count - first - at) * 0.2,
                session_id=f"s{(first + at) // 5}",
                user_id=f"u{rng.randrange(100_000)}",
                trace_id=f"{rng.getrandbits(128):032x}",
                environment="prod",
                model=f"m{rng.randrange(3)}",
                error="boom" if rng.random() < 1e-5 else None,
                answer=f"{examples[(first + at) % _DISTINCT].answer} order{first + at}",
            )
            for at in range(_BLOCK)
        ]
        rig.commit(sent(*block), now=NOW)
    print(f"filled in {time.perf_counter() - started:.0f} s")


def summaries(rig: Rig) -> None:
    """Make all that are missing; what they cost, in time and on disk."""
    layout, taken, written, blocks = layout_of(rig.pipeline), 0.0, 0.0, 0
    with rig.store.reader() as reader:
        while due := reader.due_summaries(layout, rig.store.shard.next_sequence, 16):
            started = time.perf_counter()
            rig.store.shard.summaries().begin(due)
            rows = [summarize(reader, rig.pipeline, each.first_sequence) for each in due]
            made = time.perf_counter()
            rig.store.shard.summaries().put(rows)
            taken, written = taken + made - started, written + time.perf_counter() - made
            blocks += len(due)
    if blocks:
        each = 1e6 / (blocks * _BLOCK)
        print(f"summaries: {taken * each:.2f} us a record beside the writer", end=", ")
        print(f"{written * each:.3f} us on it")
    sizes = {
        table: rig.store._db.number(f"SELECT coalesce(sum(length(body)), 0) FROM {table}")
        for table in ("block_facts", "block_keys")
    }
    stored = rig.store._db.number(
        "SELECT sum(length(hashes) + length(observations) + length(body)) FROM blocks"
    )
    share = sum(sizes.values()) / stored
    print(f"on disk: {sizes} of {stored:,} bytes of blocks: {share:.2%}")


def searches(rig: Rig) -> None:
    """Time the first page of each search, a reader each."""
    count = rig.store.shard.next_sequence
    print(f"{count:,} queries; median and 95 % of {_TIMES} in ms, the same of CPU, blocks opened")
    for name, make in asked_for(count):
        times, computed, opened = [], [], 0
        for seed in range(_TIMES):
            asked = QueryFilter(
                **({"since": 0.0, "until": 2e9, "pipeline": "", "failing": (), "limit": 30}
                   | make(random.Random(seed)))
            )  # fmt: skip
            calls: list[int] = []
            started, before = time.perf_counter(), time.thread_time()
            with rig.store.reader() as reader:
                block = reader.block

                def counted(at, block=block, calls=calls, **how):
                    calls.append(at)
                    return block(at, **how)

                reader.block = counted

                def goes_on(started=started) -> bool:
                    return time.perf_counter() < started + 0.1

                queries.page(queries.QuerySearch(reader, rig.pipeline, asked, goes_on=goes_on))
            times.append(1e3 * (time.perf_counter() - started))
            computed.append(1e3 * (time.thread_time() - before))
            opened = max(opened, len(calls))
        row = [value for each in (times, computed) for value in np.quantile(each, (0.5, 0.95))]
        print(f"{name:28} {row[0]:8.1f} {row[1]:8.1f} {row[2]:8.1f} {row[3]:8.1f} {opened:6}")
    one(rig, count)


def one(rig: Rig, count: int) -> None:
    """Time single queries by their ids."""
    times = []
    for seed in range(_TIMES):
        started = time.perf_counter()
        query_id = f"q{random.Random(seed).randrange(count)}"
        sequence = rig.store.shard.find(rig.store.shard.hash(query_id))
        with rig.store.reader() as reader:
            queries.describe([reader.record(sequence)], rig.pipeline)
        times.append(1e3 * (time.perf_counter() - started))
    print(f"{'one query':28} {np.median(times):8.1f} {np.quantile(times, 0.95):8.1f}")


Made = Callable[[random.Random], dict[str, Any]]


def asked_for(count: int) -> Iterator[tuple[str, Made]]:
    """Searches by name."""
    yield "newest", lambda _: {}
    yield "pipeline", lambda rng: {"pipeline": f"pipeline-{rng.randrange(20)}"}
    yield "pipeline, nobody's", lambda _: {"pipeline": "nobody"}
    yield "version", lambda _: {"version": "v1"}
    yield "slice", lambda _: {"tags": (("tenant", "t1"),)}
    yield "environment, none", lambda _: {"same": (("environment", "test"),)}
    yield "model", lambda _: {"same": (("model", "m1"),)}
    yield "session", lambda rng: {"same": (("session_id", f"s{rng.randrange(count // 5)}"),)}
    yield "user", lambda rng: {"same": (("user_id", f"u{rng.randrange(100_000)}"),)}
    yield "trace, none", lambda rng: {"same": (("trace_id", f"{rng.getrandbits(128):032x}"),)}
    yield "error, one in 100,000", lambda _: {"failing": ("error",)}
    yield "disliked", lambda _: {"feedback": "negative"}
    yield "failure mode", lambda _: {"mode": "generation"}
    yield "score, none", lambda _: {"most_score": 0.5}
    yield "slowest", lambda _: {"slowest": True}
    yield (
        "slowest of a pipeline",
        lambda rng: {"slowest": True, "pipeline": f"pipeline-{rng.randrange(20)}"},
    )
    yield "a common word", lambda _: {"words": WordSearch.of("object")}
    yield "two words", lambda _: {"words": WordSearch.of("iterator encoding")}
    yield "a rare word", lambda rng: {"words": WordSearch.of(f"order{rng.randrange(count)}")}
    yield "a word of nobody", lambda _: {"words": WordSearch.of("xylophonist")}


if __name__ == "__main__":
    main()
