"""Bodies in an object store: bytes a record in PostgreSQL, CPU of moving, time to read a query."""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # the servers are those of the tests

from harness import synthetic
from msgspec import json

from ragmon.clock import SystemClock
from ragmon.config import Settings
from ragmon.daemon.build import build_engine, open_store
from ragmon.records import QueryRecord
from ragmon.sources import Submission
from tests.support.object_store import KEY, SECRET, moto
from tests.support.postgres import PostgresServer, needed

RECORDS = 10_000
GROUP = 500
READS = 100


def run() -> list[tuple[str, str, str]]:
    """Rows of the table."""
    with postgres() as server, moto() as store, tempfile.TemporaryDirectory() as folder:
        store.make("bench")
        bodies = {
            "kind": "s3", "bucket": "bench", "endpoint": store.url, "access_key": KEY,
            "secret_key": SECRET, "hot_s": 0, "cache_bytes": 0,
        }  # fmt: skip
        where = {"kind": "postgresql", "dsn": server.url()}
        settings = Settings(data_dir=Path(folder), store=where | {"bodies": {"kind": "postgresql"}})
        engine = build_engine(settings, SystemClock())
        engine.restore()
        fill(engine)
        engine.snapshot()
        within = columns(server)
        before = read_ms(engine.store)
        engine.store.close()
        with closing(open_store(Settings(data_dir=Path(folder), store=where | {"bodies": bodies},
                                         ))) as moved:  # fmt: skip
            moved.bodies.loop.stop()
            moved.bodies.loop.stopping.clear()
            started = time.process_time()
            while server.execute("SELECT 1 FROM ragmon.blocks WHERE object IS NULL LIMIT 1"):
                moved.bodies.turn()
            cpu = 1e6 * (time.process_time() - started) / RECORDS
            after = read_ms(moved)
            left = columns(server)
            objects = moved.bodies
            objects.pending._measured_at = None
            objects.pending.measure()
            in_store = objects.object_bytes / RECORDS
            count = objects.objects
    return [
        ("a record of 3 KB in PostgreSQL, with its body", f"{within:.0f} B", "1,110"),
        ("the same, bodies moved", f"{left:.0f} B", "77"),
        ("in the object store", f"{in_store:.0f} B, {count} objects", ""),
        ("CPU of moving a record, uploads signed and hashed", f"{cpu:.2f} µs", ""),
        ("one query by its number, bodies in PostgreSQL", before, ""),
        ("the same, bodies moved, nothing cached, moto", after, ""),
    ]  # fmt: skip


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    """A server of its own."""
    server = PostgresServer(needed())
    try:
        server.start()
        yield server
    finally:
        server.remove()


def fill(engine) -> None:
    """Commit records of two hours ago."""
    now = time.time() - 7_200.0
    records = [json.decode(line, type=QueryRecord) for line in synthetic(RECORDS, now=now)]
    for at in range(0, RECORDS, GROUP):
        group = records[at : at + GROUP]
        engine.committer.commit([Submission("bench", 0, lambda _: None, records=group)], now)


def columns(server: PostgresServer) -> float:
    """Bytes a record in the columns of blocks, as they are stored."""
    parts = " + ".join(f"pg_column_size({name})" for name in ("hashes", "observations", "body"))
    return float(server.execute(f"SELECT sum({parts}) FROM ragmon.blocks")[0][0]) / RECORDS


def read_ms(store) -> str:
    """Median and slowest of reading one record, anywhere in the store, with CPU."""
    seconds, started = [], time.process_time()
    with store.reader() as reader:
        for at in range(READS):
            begun = time.perf_counter()
            assert reader.record(at * (RECORDS // READS)) is not None
            seconds.append(time.perf_counter() - begun)
    cpu = 1_000 * (time.process_time() - started) / READS
    median, slowest = 1_000 * statistics.median(seconds), 1_000 * max(seconds)
    return f"{cpu:.1f} ms CPU; {median:.1f} ms, slowest {slowest:.1f}"


if __name__ == "__main__":
    for row in run():
        print(" | ".join(row))
