"""Concurrent load that knows the truth: what was acknowledged, what is in doubt."""

import threading
from collections.abc import Iterable
from typing import Any

import msgspec
import requests

from ragmon.clock import SystemClock
from tests.support.http import NDJSON, Site

BATCH = 20


def record(query_id: str) -> dict[str, Any]:
    """A query whose every property follows from its id, so that any count can be checked."""
    number = int(query_id.split("-")[1])
    return {
        "query_id": query_id,
        "timestamp": SystemClock().now() - 60,
        "pipeline": f"p{number % 3}",
        "version": f"v{number % 2}",
        "chunks": [{"id": f"d{at}"} for at in range(number % 4)],
        "error": "failed" if number % 7 == 0 else None,
        "latency_ms": float(number % 1_000),
    }


def expected(ids: Iterable[str]) -> dict[str, int]:
    """What the counters must say of these queries."""
    numbers = [int(each.split("-")[1]) for each in ids]
    return {
        "ragmon_queries_total": len(numbers),
        "ragmon_zero_result_queries_total": sum(number % 4 == 0 for number in numbers),
        "ragmon_chunks_retrieved_total": sum(number % 4 for number in numbers),
        "ragmon_query_errors_total": sum(number % 7 == 0 for number in numbers),
        "ragmon_query_duration_seconds_count": len(numbers),
    }


class Load:
    """Threads that post batches until they are stopped or nobody answers."""

    def __init__(self, threads: int = 4) -> None:
        self.acknowledged: set[str] = set()
        self.refused = 0
        self._doubtful: list[list[str]] = []
        self._next = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._count = threads
        self._threads: list[threading.Thread] = []

    @property
    def doubtful(self) -> set[str]:
        """Sent, and never answered."""
        with self._lock:
            return {each for batch in self._doubtful for each in batch}

    def start(self, site: Site) -> None:
        """Begin, with what is in doubt."""
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._run, args=(site,)) for _ in range(self._count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after the batches under way."""
        self._stop.set()
        self.wait()

    def wait(self) -> None:
        """Until every thread has met its end."""
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _run(self, site: Site) -> None:
        with requests.Session() as session:
            while not self._stop.is_set():
                batch = self._take()
                if not self._send(session, site, batch):
                    return

    def _take(self) -> list[str]:
        with self._lock:
            if self._doubtful:
                return self._doubtful.pop()
            self._next += BATCH
            return [f"q-{number}" for number in range(self._next - BATCH, self._next)]

    def _send(self, session: requests.Session, site: Site, batch: list[str]) -> bool:
        body = b"\n".join(msgspec.json.encode(record(each)) for each in batch)
        try:
            answer = session.post(
                site.url + "/v1/queries", data=body, headers={"content-type": NDJSON}, timeout=30
            )
        except requests.RequestException:
            with self._lock:
                self._doubtful.append(batch)
            return False
        with self._lock:
            if answer.status_code == 200:
                assert answer.json()["accepted"] + answer.json()["duplicates"] == len(batch)
                self.acknowledged.update(batch)
            else:
                assert answer.status_code == 503
                self.refused += 1
                self._doubtful.append(batch)
        return True
