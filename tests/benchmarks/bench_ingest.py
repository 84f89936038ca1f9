"""Sustained durable ingest over HTTP, as ratios to two floors measured in the same run."""

import sqlite3
import tempfile
import time
from pathlib import Path

import msgspec
import zstandard
from harness import Load, batches, cpu_per, daemon, post_all, synthetic

from ragmon.records import QueryRecord

RECORDS = 60_000
RUNS = 3  # the best of them, as of the floors
BATCH = 200


def decode_floor(records: list[bytes]) -> float:
    """msgspec decode alone, us CPU a record."""
    decode = msgspec.json.Decoder(QueryRecord).decode

    def run() -> None:
        for record in records:
            decode(record)

    return cpu_per(len(records), run)


def block_floor(records: list[bytes]) -> float:
    """zstd-1 and one durable block insert of 500 records, us CPU a record."""
    with tempfile.TemporaryDirectory() as folder:
        db = sqlite3.connect(Path(folder) / "floor.sqlite", isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE blocks (id INTEGER PRIMARY KEY, body BLOB)")
        compressor = zstandard.ZstdCompressor(level=1)

        def run() -> None:
            for at in range(0, len(records), 500):
                body = compressor.compress(b"\n".join(records[at : at + 500]))
                db.execute("INSERT INTO blocks (body) VALUES (?)", (body,))

        return cpu_per(len(records), run)


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    records = synthetic(RECORDS, now=time.time())
    size = sum(map(len, records)) / len(records)
    decode, block = decode_floor(records[:10_000]), block_floor(records[:10_000])
    rows = []
    with tempfile.TemporaryDirectory() as folder, daemon(Path(folder), "--slices", "tenant") as d:
        post_all(d.url, batches(synthetic(4_000, seed=9, now=time.time()), BATCH))
        bytes_before = _size(folder)
        cpu = float("inf")
        for at in range(0, RECORDS, RECORDS // RUNS):
            before = d.cpu_s
            load = post_all(d.url, batches(records[at : at + RECORDS // RUNS], BATCH))
            cpu = min(cpu, 1e6 * (d.cpu_s - before) / load.accepted)
        rows += [
            ("record", f"{size:.0f} B of JSON, batches of {BATCH}", ""),
            ("msgspec decode only (floor)", f"{decode:.1f} us/record", ""),
            ("zstd-1 + block insert only (floor)", f"{block:.1f} us/record", ""),
            ("durable ingest, CPU", f"{cpu:.1f} us/record = {1e6 / cpu:,.0f} records/s/core", ""),
            ("ratio to decode only", f"{cpu / decode:.1f}", "<= 13"),
            ("ratio to block insert only", f"{cpu / block:.2f}", "<= 3.4"),
            ("throughput, wall", f"{load.accepted / load.wall_s:,.0f} records/s", ""),
            ("acknowledgement at saturation", _waited(load), ""),
            ("memory", f"{d.memory_mb('VmHWM'):.0f} MB at most", "<= 300 MB"),
        ]
        paced = synthetic(20_000, seed=1, now=time.time())
        load = post_all(d.url, batches(paced, BATCH), rate=4_000 / BATCH)
        rows.append(("acknowledgement at 4,000 records/s", _waited(load), "p99 <= 50 ms"))
        single = synthetic(12_000, seed=2, now=time.time())
        before = d.cpu_s
        load = post_all(d.url, single, connections=64)
        cpu = 1e6 * (d.cpu_s - before) / load.accepted
        rows.append(
            (
                "single-record posts, 64 connections",
                f"{cpu:.0f} us each = {1e6 / cpu:,.0f}/s/core",
                ">= 6,000/s/core",
            )
        )
        stored = _size(folder) - bytes_before
        total = len(records) + len(paced) + len(single)
        rows.append(("disk", f"{stored / total:.0f} B/record (with the log)", "<= 1,200 B"))
    return rows


def _waited(load: Load) -> str:
    return f"p50 {load.latency(0.5):.0f} ms, p99 {load.latency(0.99):.0f} ms"


def _size(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:40} {row[1]:50} {row[2]}")
