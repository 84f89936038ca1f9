"""Simulated time on a real daemon: steps of the wall clock, with the traffic that belongs to each.

The wall clock of the daemon is stepped by half an hour again and again (``tests/faults``), and
between two steps it runs as ever: no timeout, no wait and no schedule is made shorter than in
production. What depends on age (retention, windows, alerts, rotations) sees a month go by.
"""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from ragmon.clock import SystemClock
from ragmon.stores.sqlite.store import FILE
from tests.faults.library import Faults
from tests.faults.nursery import Daemon, Nursery
from tests.support.closing import Closing
from tests.support.receiver import Receiver
from tests.support.wait import eventually

STEP_S = 1_500.0  # below the hour that retention takes for a jump, also if one look is missed
DAY_S = 86_400.0
_QUERIES = 60  # in each step
_TRACES = 5
_LINES = 20  # of the followed file
_ROTATE_EVERY, _RESTART_EVERY, _TOKENS_EVERY = 16, 53, 29  # steps
_TOKENS = ("soak-token-even", "soak-token-odd")


class Sample(NamedTuple):
    """The size of the daemon at one moment."""

    step: int
    rss_bytes: int
    threads: int
    descriptors: int
    disk_bytes: int


class Month(Closing):
    """One daemon, restarted now and then, and its traffic."""

    def __init__(self, folder: Path, receiver: Receiver, *, max_disk: int, records: str) -> None:
        """Make it.

        Args:
            folder: for data, logs, tokens and the followed file.
            receiver: of the notifications.
            max_disk: bytes that the store may take.
            records: time that queries are kept, as in ``retention.records``.
        """
        self.data_dir = folder / "data"
        self.max_disk = max_disk
        self.sent = 0
        self.followed = 0
        self.restarts = 0
        self._log = folder / "rag.log"
        self._log.touch()
        self._token_file = folder / "token"
        self._receiver = receiver
        self._faults = Faults(folder / "faults", self.data_dir)
        self._nursery = Nursery(self._faults.environment())
        self._chance = random.Random(1)
        self._tokens = 0
        self._write_token()
        self._config = folder / "ragmon.yaml"
        self._config.write_text(
            _CONFIG.format(
                token=self._token_file,
                log=self._log,
                url=receiver.url,
                records=records,
                max_disk=max_disk,
            ),
            encoding="utf-8",
        )
        self.site = self._start()

    def close(self) -> None:
        """End it."""
        self._nursery.close()
        self._faults.close()

    def now(self) -> float:
        """The daemon's wall clock."""
        return SystemClock().now() + self._faults.clock_offset_s

    def run(self, steps: int) -> Iterator[Sample]:
        """So many steps; the size of the daemon after each."""
        for step in range(1, steps + 1):
            self._faults.step_clock(STEP_S)
            self._send(step)
            self._follow(step)
            if step % _TOKENS_EVERY == 0:
                self._tokens += 1
                self._write_token()
                self._restart()  # it reads tokens when it starts
            elif step % _RESTART_EVERY == 0:
                self._restart()
            self._read()
            yield self._sample(step)

    def finish(self) -> None:
        """Everything followed was counted once; the end is orderly."""
        eventually(
            lambda: (
                int(self.site.total("ragmon_queries_total", pipeline="followed")) >= self.followed
            ),
            "every followed line is counted",
            60,
        )
        assert int(self.site.total("ragmon_queries_total", pipeline="followed")) == self.followed
        assert self.site.terminate() == 0

    def oldest_s(self) -> float:
        """Age of the oldest stored query, by the daemon's clock."""
        with closing(sqlite3.connect(f"{(self.data_dir / FILE).as_uri()}?mode=ro", uri=True)) as db:
            (oldest,) = db.execute("SELECT min(last_timestamp) FROM blocks").fetchone()
        return 0.0 if oldest is None else self.now() - float(oldest)

    def _start(self) -> Daemon:
        site = self._nursery.start(self.data_dir, "--config", str(self._config))
        site._token = _TOKENS[self._tokens % 2]
        site.timeout_s = 300.0  # an hour beside other work has slow moments
        return site

    def _restart(self) -> None:
        if self._chance.random() < 0.5:
            assert self.site.terminate() == 0
        else:
            self.site.kill()
        self.restarts += 1
        self.site = self._start()

    def _write_token(self) -> None:
        self._token_file.write_text(_TOKENS[self._tokens % 2], encoding="utf-8")

    def _send(self, step: int) -> None:
        """Queries of the past half hour with late feedback and labels; every few days an outage."""
        now = self.now()
        is_bad = step % 100 in range(40, 48)
        ids = [f"{step}-{at}" for at in range(_QUERIES)]
        rows = [
            {
                "query_id": name,
                "timestamp": now - STEP_S * at / _QUERIES,
                "pipeline": f"p{at % 3}",
                "version": f"v{step // 400}",
                "tags": {"tenant": f"t{self._chance.randrange(8)}"},
                "query": "q" * self._chance.randrange(20, 400),
                "answer": f"The answer is {at} [1].",
                "chunks": [{"id": f"d{n}", "score": 0.5, "text": "t" * 200} for n in range(3)],
                "error": "failed" if is_bad and at % 2 else None,
                "latency_ms": self._chance.expovariate(1 / 800),
            }
            for at, name in enumerate(ids)
        ]
        assert self.site.post("/v1/queries", rows).json["accepted"] == len(rows)
        self.sent += len(rows)
        feedback = [{"query_id": name, "rating": 1} for name in ids[::4]]
        assert self.site.post("/v1/feedback", feedback).status == 200
        labels = [{"query_id": name, "labeller": "l", "faithful": 1} for name in ids[::9]]
        assert self.site.post("/v1/labels", labels).status == 200
        traces = self.site.post("/v1/traces", _traces(step, now), content_type="application/json")
        assert traces.status == 200

    def _follow(self, step: int) -> None:
        """Lines of the followed file, which is rotated as logrotate does."""
        line = msgspec.json.encode({"pipeline": "followed", "query": "x" * 50}) + b"\n"
        with self._log.open("ab") as file:
            file.write(line * _LINES)
        self.followed += _LINES
        if step % _ROTATE_EVERY == 0:
            eventually(
                lambda: (
                    int(self.site.total("ragmon_queries_total", pipeline="followed"))
                    >= self.followed
                ),
                "the file is read before it is rotated away",
                60,
            )
            self._log.with_suffix(".log.2").unlink(missing_ok=True)
            first = self._log.with_suffix(".log.1")
            if first.exists():
                first.rename(self._log.with_suffix(".log.2"))
            self._log.rename(first)
            self._log.touch()

    def _read(self) -> None:
        for path in (
            "/",
            "/metrics",
            "/v1/report?window=7d",
            "/v1/queries?failing=error",
            "/v1/alerts",
        ):
            assert self.site.get(path).status == 200, path
        assert self.site.get("/livez").status == 200

    def _sample(self, step: int) -> Sample:
        process = Path(f"/proc/{self.site.pid}")
        status = process.joinpath("status").read_text(encoding="ascii")
        numbers = dict(line.split(":", 1) for line in status.splitlines())
        disk = sum(path.stat().st_size for path in self.data_dir.iterdir())
        return Sample(
            step,
            1024 * int(numbers["VmRSS"].split()[0]),
            int(numbers["Threads"]),
            len(list((process / "fd").iterdir())),
            disk,
        )


def _traces(step: int, now: float) -> dict[str, object]:
    start = int(now * 1e9)
    texts = {"openinference.span.kind": "CHAIN", "input.value": "q", "output.value": "a"}
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in texts.items()]
    spans = [
        {
            "traceId": f"{step * 1_000 + at:032x}",
            "spanId": f"{at + 1:016x}",
            "name": "chain",
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 10**8),
            "attributes": attributes,
        }
        for at in range(_TRACES)
    ]
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


_CONFIG = """
auth: {{tokens: [{{name: soak, token_file: {token}, scopes: [admin]}}]}}
sources: [{{kind: jsonl, path: {log}, poll_s: 0.1}}]
sinks: [{{kind: webhook, name: hook, url: '{url}/'}}]
slices: [tenant]
windows: [5m, 1h, 1d]
retention: {{records: {records}, windows: 10d, max_disk: {max_disk}}}
snapshot_every: 1s
evaluate_every: 2s
external_url: http://ragmon.example/
judge: {{grounding: {{enabled: false}}}}
detectors:
  lag: 0s
  first_days: 0
  rules: [{{kind: threshold, metric: error, limit: 0.2, window: 3600, min_samples: 5}}]
alerts: {{wait: {{threshold: 0}}, keep: {{threshold: 0}}}}
"""
