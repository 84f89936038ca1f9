"""Queries, repeats and ratings into a topic, in the order of their time and at an even pace."""

import json
import random
import threading
from typing import Any

from ragmon.clock import Clock
from tests.support.closing import Closing

_REPEATED, _RATED = 0.02, 0.1  # of all queries
_LATEST_S = 3.0  # by which a rating or a repeat follows, or comes before
_TICK_S = 0.05


def query_id(number: int) -> str:
    """The id of a query."""
    return f"chaos-{number}"


class Traffic(Closing):
    """A thread that sends so many queries within some seconds, through whatever happens.

    What it sent is in the log when it has ended: the producer is idempotent and waits for all.
    """

    def __init__(
        self, producer: Any, topic: str, *, ids: int, lasts_s: float, seed: int, clock: Clock
    ) -> None:
        """Make it; nothing is sent.

        Args:
            producer: of confluent-kafka.
            topic: to send to.
            ids: queries in all.
            lasts_s: seconds to send them in.
            seed: of what is sent.
            clock: whose time the queries have.
        """
        self.ids = ids
        self.repeats = 0
        self.rated = 0
        self._producer = producer
        self._topic = topic
        self._rate = ids / lasts_s
        self._chance = random.Random(seed)
        self._clock = clock
        self._later: list[tuple[float, str, bytes, str]] = []  # due, key, value, kind
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failed: list[str] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True when all is in the log."""
        return not self._thread.is_alive()

    def close(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join(120)

    def check(self) -> None:
        """All that was sent is in the log."""
        assert self.is_over
        assert not self._failed, self._failed[:3]

    def repeat(self, share: float) -> int:
        """Send a share of the queries once more; returns how many."""
        numbers = self._chance.sample(range(self.ids), int(self.ids * share))
        for number in numbers:
            self._send(query_id(number), self._query(number, self._clock.now()), "")
        assert self._producer.flush(60) == 0
        return len(numbers)

    def _run(self) -> None:
        started, sent = self._clock.monotonic(), 0
        while sent < self.ids and not self._stopping.is_set():
            until = min(self.ids, int((self._clock.monotonic() - started) * self._rate))
            for number in range(sent, until):
                self._begin(number)
            sent = max(sent, until)
            self._send_due()
            self._stopping.wait(_TICK_S)
        while self._later and not self._stopping.wait(_TICK_S):
            self._send_due()
        if self._producer.flush(300) != 0:
            self._failed.append("the producer could not deliver all")

    def _begin(self, number: int) -> None:
        now, key = self._clock.now(), query_id(number)
        value = self._query(number, now)
        due = now + self._chance.uniform(0.0, _LATEST_S)
        if self._chance.random() < _RATED:
            rating = json.dumps({"query_id": key, "rating": self._chance.choice(_RATINGS)}).encode()
            self.rated += 1
            if self._chance.random() < 0.2:
                self._send(key, rating, "feedback")  # before its query
            else:
                self._later.append((due, key, rating, "feedback"))
        self._send(key, value, "")
        if self._chance.random() < _REPEATED:
            self.repeats += 1
            self._later.append((due, key, value, ""))

    def _send_due(self) -> None:
        now = self._clock.now()
        for _, key, value, kind in [each for each in self._later if each[0] <= now]:
            self._send(key, value, kind)
        self._later = [each for each in self._later if each[0] > now]

    def _send(self, key: str, value: bytes, kind: str) -> None:
        headers = [("ragmon-kind", kind)] if kind else None
        self._producer.produce(
            self._topic, value, key=key, headers=headers, on_delivery=self._delivered
        )
        self._producer.poll(0)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(str(error))

    def _query(self, number: int, at: float) -> bytes:
        chance = random.Random(number)
        fields: dict[str, Any] = {
            "query_id": query_id(number),
            "pipeline": f"p{number % 3}",
            "timestamp": round(at, 3),
            "query": f"when is shop {number} open?",
            "latency_ms": round(chance.lognormvariate(6.0, 0.8), 3),
        }
        if chance.random() < 0.03:
            fields["error"] = "timeout"
        else:
            fields["answer"] = "from nine to five"
            fields["chunks"] = [
                {"id": f"d{chance.randrange(200)}", "score": round(chance.random(), 4)}
                for _ in range(chance.randrange(5))
            ]
        return json.dumps(fields).encode()


_RATINGS = ("positive", "negative")
