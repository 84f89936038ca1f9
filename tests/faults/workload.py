"""Load of every kind that knows the truth: what was acknowledged, and what is in doubt.

Every operation follows from its number, so that it can be sent again, and so that any count can be
computed from the acknowledged numbers alone.
"""

import json
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import requests

from tests.support.http import NDJSON, Site

KINDS = ("queries", "feedback", "labels", "traces")
_MIXTURE = (6, 2, 1, 1)
_SIZES = (1, 3, 20, 80)
_PADDING = (5, 300, 3_000)
Key = tuple[str, int]
"""An operation: its kind and number."""


class Workload:
    """Threads that send until nobody answers, and the account of it."""

    def __init__(self, base: float, seed: int = 1, threads: int = 3) -> None:
        """Make it.

        Args:
            base: unix seconds of the first query.
            seed: of what is sent when.
            threads: that send.
        """
        self.base = base
        self.acknowledged: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self.doubtful: set[Key] = set()
        self.refused = 0
        self._chance = random.Random(seed)
        self._next = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._count = threads
        self._threads: list[threading.Thread] = []

    def start(self, site: Site) -> None:
        """Begin to send."""
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._run, args=(site.url,)) for _ in range(self._count)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End after what is under way."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def settle(self, site: Site) -> None:
        """Send again whatever is in doubt; all of it must be taken."""
        with requests.Session() as session:
            session.trust_env = False  # looking for proxies would take longer than the request
            for kind in KINDS:
                numbers = sorted(number for each, number in self.doubtful if each == kind)
                for at in range(0, len(numbers), 200):
                    part = numbers[at : at + 200]
                    status = self._send(session, site.url, kind, part)
                    assert status == 200, (kind, status)
                    self._note(kind, part, status)
        assert not self.doubtful

    def send_one(self, site: Site) -> int:
        """Send one operation; its status."""
        kind, numbers = self._choose()
        with requests.Session() as session:
            session.trust_env = False
            status = self._send(session, site.url, kind, numbers)
        self._note(kind, numbers, status)
        return status

    def _run(self, url: str) -> None:
        with requests.Session() as session:
            session.trust_env = False  # looking for proxies would take longer than the request
            while not self._stop.is_set():
                kind, numbers = self._choose()
                try:
                    status = self._send(session, url, kind, numbers)
                except requests.RequestException:
                    return  # in doubt
                self._note(kind, numbers, status)
                if status != 200:
                    self._stop.wait(0.02)

    def _choose(self) -> tuple[str, list[int]]:
        with self._lock:
            known = self._next
            kind = self._chance.choices(KINDS, _MIXTURE)[0] if known > 50 else "queries"
            size = self._chance.choice(_SIZES)
            if kind in ("queries", "traces"):
                self._next += size
                numbers = list(range(known, known + size))
            else:
                newest = sorted(self.acknowledged["queries"])[-500:]
                numbers = sorted(self._chance.sample(newest, min(size, len(newest))))
            self.doubtful |= {(kind, number) for number in numbers}
            return kind, numbers

    def _note(self, kind: str, numbers: Iterable[int], status: int) -> None:
        with self._lock:
            if status == 200:
                self.acknowledged[kind].update(numbers)
                self.doubtful -= {(kind, number) for number in numbers}
            else:
                assert status == 503, status
                self.refused += 1

    def _send(self, session: requests.Session, url: str, kind: str, numbers: Sequence[int]) -> int:
        if not numbers:
            return 200
        path, content_type, body = _BODIES[kind](self.base, numbers)
        answer = session.post(
            url + path, data=body, headers={"content-type": content_type}, timeout=30
        )
        if answer.status_code == 200 and kind == "queries":
            outcome = answer.json()
            assert outcome["accepted"] + outcome["duplicates"] == len(numbers), outcome
        return answer.status_code


def query_id(number: int) -> str:
    """Id of a query."""
    return f"q-{number}"


def trace_id(number: int) -> str:
    """Id of a trace, and of the query that is made of it."""
    return f"{number + 1:032x}"


def query(base: float, number: int) -> dict[str, Any]:
    """A query; every property follows from its number.

    Those that ask the same are of one version, so that repeats count alike in whatever order.
    """
    return {
        "query_id": query_id(number),
        "timestamp": base + number % 1_000,
        "pipeline": f"p{number % 3}",
        "version": f"v{number % 2}",
        "query": f"v{number % 2} " + "x" * _PADDING[number % len(_PADDING)],
        "chunks": [{"id": f"d{at}", "score": 0.5} for at in range(number % 4)],
        "error": "failed" if number % 7 == 0 else None,
        "latency_ms": float(number % 1_000),
    }


def expected(acknowledged: dict[str, set[int]]) -> dict[str, int]:
    """What the counters must say of the pipelines of queries."""
    numbers = acknowledged["queries"]
    return {
        "ragmon_queries_total": len(numbers),
        "ragmon_zero_result_queries_total": sum(number % 4 == 0 for number in numbers),
        "ragmon_chunks_retrieved_total": sum(number % 4 for number in numbers),
        "ragmon_query_errors_total": sum(number % 7 == 0 for number in numbers),
    }


def _queries(base: float, numbers: Sequence[int]) -> tuple[str, str, bytes]:
    return "/v1/queries", NDJSON, _lines(query(base, number) for number in numbers)


def _feedback(base: float, numbers: Sequence[int]) -> tuple[str, str, bytes]:
    rows = (
        {
            "query_id": query_id(number),
            "rating": 1.0 if number % 3 else -1.0,
            "comment": "c" * (number % 50),
            "timestamp": base + number % 1_000 + 5,
        }
        for number in numbers
    )
    return "/v1/feedback", NDJSON, _lines(rows)


def _labels(base: float, numbers: Sequence[int]) -> tuple[str, str, bytes]:
    rows = (
        {
            "query_id": query_id(number),
            "labeller": "human",
            "relevant_ids": [f"d{number % 5}"],
            "faithful": (number % 5) / 4,
            "timestamp": base + number % 1_000 + 9,
        }
        for number in numbers
    )
    return "/v1/labels", NDJSON, _lines(rows)


def _traces(base: float, numbers: Sequence[int]) -> tuple[str, str, bytes]:
    service = [{"key": "service.name", "value": {"stringValue": "traced"}}]
    spans = [_span(base, number) for number in numbers]
    scope = [{"resource": {"attributes": service}, "scopeSpans": [{"spans": spans}]}]
    return "/v1/traces", "application/json", json.dumps({"resourceSpans": scope}).encode()


def _span(base: float, number: int) -> dict[str, Any]:
    start = int(base * 1e9) + number % 1_000 * 10**9
    texts = {
        "openinference.span.kind": "CHAIN",
        "input.value": f"question {number}",
        "output.value": f"answer {number}",
    }
    return {
        "traceId": trace_id(number),
        "spanId": f"{number + 1:016x}",
        "name": "chain",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**6 * (number % 100)),
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()],
    }


def _lines(rows: Iterable[Any]) -> bytes:
    return b"\n".join(map(msgspec.json.encode, rows))


_BODIES: dict[str, Callable[[float, Sequence[int]], tuple[str, str, bytes]]] = {
    "queries": _queries,
    "feedback": _feedback,
    "labels": _labels,
    "traces": _traces,
}
