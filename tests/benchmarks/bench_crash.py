"""kill -9 in the middle of load, again and again: nothing acknowledged is lost or counted twice."""

import collections
import json
import random
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
from harness import daemon, synthetic

from ragmon.records import QueryRecord
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE

KILLS = 20
LOAD_S = (0.2, 1.2)
WORKERS = 4


def run() -> list[tuple[str, str, str]]:
    """Rows of (what, measured, goal)."""
    rng = random.Random(1)
    acknowledged: set[str] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kill in range(KILLS):
            with daemon(folder) as running:
                _load_until_killed(running, rng.uniform(*LOAD_S), kill, acknowledged)
        with daemon(folder) as running:
            page = running.get("/metrics").decode()
            stored = _stored_ids(folder)
        counted = sum(
            int(float(line.rsplit(" ", 1)[1]))
            for line in page.splitlines()
            if line.startswith("ragmon_queries_total{")
        )
    lost = len(acknowledged - stored.keys())
    twice = sum(count > 1 for count in stored.values())
    wrong = abs(counted - len(stored))
    return [
        (
            f"kill -9 under load, {KILLS} times",
            f"{len(acknowledged):,} acknowledged, {lost} lost, {twice} stored twice",
            "0 and 0",
        ),
        (
            "counters against the store",
            f"{counted:,} counted, {len(stored):,} stored, {wrong} apart",
            "0",
        ),
    ]


def _load_until_killed(running, seconds: float, seed: int, acknowledged: set[str]) -> None:
    lines = synthetic(4_000, seed=seed, now=time.time())
    batches = [lines[at : at + 20] for at in range(0, len(lines), 20)]
    position = iter(batches)
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                batch = next(position, None)
            if batch is None:
                return
            request = urllib.request.Request(
                running.url + "/v1/queries",
                b"\n".join(batch),
                {"Content-Type": "application/x-ndjson"},
            )
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    answer.read()
            except (OSError, urllib.error.URLError):
                return
            with lock:
                acknowledged.update(json.loads(line)["query_id"] for line in batch)

    workers = [threading.Thread(target=work) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    time.sleep(seconds)
    running.kill()
    for worker in workers:
        worker.join()


def _stored_ids(folder: Path) -> collections.Counter[str]:
    decode = msgspec.msgpack.Decoder(QueryRecord).decode
    with SqliteReader(folder / FILE) as reader:
        return collections.Counter(
            decode(record).query_id
            for block in reader.blocks(0.0, 1e12)
            for record in reader.records(block.first_sequence)
        )


if __name__ == "__main__":
    for row in run():
        print(f"{row[0]:48} {row[1]:60} {row[2]}")
