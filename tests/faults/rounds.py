"""Rounds of load and sudden ends over one data directory, and what is checked after each."""

import random
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import requests

from ragmon.clock import SystemClock
from ragmon.records import QueryRecord
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE
from tests.faults import power
from tests.faults.library import Faults
from tests.faults.nursery import Daemon, Nursery
from tests.faults.workload import Workload, expected, query_id, trace_id
from tests.support.closing import Closing
from tests.support.metrics import samples
from tests.support.receiver import Receiver
from tests.support.wait import eventually

OFTEN = (
    "--snapshot_every", "150ms", "--evaluate_every", "1s", "--otlp.linger", "200ms",
    "--judge.grounding.enabled", "false", "--detectors.lag", "0s", "--detectors.first_days", "0",
    "--detectors.defaults", "false", "--alerts.wait", "{threshold: 0}", "--alerts.keep",
    "{threshold: 0}", "--external_url", "http://ragmon.example/",
)  # fmt: skip
"""Snapshots, evaluations and traces so often that sudden ends meet them."""
RULES = """[{kind: threshold, metric: error, limit: 0.5, window: 300, min_samples: 5,
 pipelines: [alarm]}]"""
_SAMPLE = r'(?m)^{}{{.*"p[0-2]".*}} (\S+)'
_BEYOND_S = 240.0  # by which the clock moves each round, so that minutes are closed
_SEVERAL = 8  # of each kind are asked for after every start; at the end every one is looked for


class Totals(NamedTuple):
    """Outcome of some rounds."""

    rounds: int
    acknowledged: dict[str, int]
    notifications: int
    lost: int
    doubled: int
    lost_bytes: int  # written and not synced, thrown away by the losses of power


class Crashes(Closing):
    """One data directory, its daemons one after another, and all that they promised."""

    def __init__(
        self,
        folder: Path,
        receiver: Receiver,
        seed: int = 1,
        *,
        losing_power: bool = False,
        more: Sequence[str] = (),
    ) -> None:
        """Make it.

        Args:
            folder: for data, logs and controls.
            receiver: of the notifications.
            seed: of the instants and of what is sent.
            losing_power: account is kept of what is durable.
            more: flags of the daemon.
        """
        self.data_dir = folder / "data"
        self.faults = Faults(folder / "faults", self.data_dir)
        self.nursery = Nursery(self.faults.environment(losing_power=losing_power))
        self.losing_power = losing_power
        self.workload = Workload(SystemClock().now() - 3_600.0, seed)
        self.receiver = receiver
        self._more = more
        self.lost_bytes = 0
        self._folder = folder
        self._chance = random.Random(seed)
        self._alarms = 0
        self._sinks = f"[{{kind: webhook, name: hook, url: '{receiver.url}/'}}]"

    def close(self) -> None:
        """End it."""
        self.nursery.close()
        self.faults.close()

    def daemon(self, data_dir: Path | None = None) -> Daemon:
        """A daemon over the data, or over others."""
        flags = (*OFTEN, *self._more, "--sinks", self._sinks, "--detectors.rules", RULES)
        return self.nursery.start(data_dir or self.data_dir, *flags)

    def now(self) -> float:
        """The daemon's wall clock."""
        return SystemClock().now() + self.faults.clock_offset_s

    def round(self, end: Callable[["Crashes", Daemon], None]) -> None:
        """Start, check, send, and end at a random instant."""
        if self.losing_power:
            power.begin(self.data_dir, self.faults.durable)
        with self.daemon() as site:
            self.check(site)
            self.raise_alarm(site)
            self.workload.start(site)
            threading.Event().wait(self._chance.uniform(0.05, 1.2))
            end(self, site)
            self.workload.stop()
        self.faults.step_clock(_BEYOND_S)

    def check(self, site: Daemon) -> None:
        """Nothing acknowledged is missing, nothing counts twice; then nothing is in doubt."""
        known = len(self.workload.acknowledged["queries"])
        doubtful = sum(kind == "queries" for kind, _ in self.workload.doubtful)
        counted = _counted(site.page())["ragmon_queries_total"]
        assert known <= counted <= known + doubtful, (known, counted, doubtful)
        self.workload.settle(site)
        assert _counted(site.page()) == expected(self.workload.acknowledged)
        self._check_some(site)

    def _check_some(self, site: Daemon) -> None:
        acknowledged = self.workload.acknowledged
        with requests.Session() as session:
            session.trust_env = False
            for number in _some(self._chance, acknowledged["queries"]):
                answer = session.get(f"{site.url}/v1/queries/{query_id(number)}", timeout=30)
                assert answer.status_code == 200, (number, answer.text)
            for number in _some(self._chance, acknowledged["feedback"]):
                detail = session.get(f"{site.url}/v1/queries/{query_id(number)}", timeout=30).json()
                assert detail["feedback"]["rating"] == (1.0 if number % 3 else -1.0), number
            for number in _some(self._chance, acknowledged["labels"]):
                detail = session.get(f"{site.url}/v1/queries/{query_id(number)}", timeout=30).json()
                assert detail["labels"][0]["faithful"] == (number % 5) / 4, number

    def raise_alarm(self, site: Daemon) -> None:
        """Queries of an hour that is bad or good in turn, so that an alert fires and ends."""
        is_bad = self._alarms % 6 < 3
        self._alarms += 1
        rows = [
            {
                "query_id": f"alarm-{self._alarms}-{at}",
                "pipeline": "alarm",
                "timestamp": self.now() - at,
                "error": "failed" if is_bad else None,
            }
            for at in range(20)
        ]
        assert site.post("/v1/queries", rows).status == 200

    def finish(self) -> None:
        """Check everything against a clean computation and against what the receiver was told."""
        with self.daemon() as site:
            self.check(site)
            traces = self.workload.acknowledged["traces"]
            eventually(
                lambda: int(site.total("ragmon_queries_total", pipeline="traced")) >= len(traces),
                "every trace is a query",
                60,
            )
            self.check_notifications(site)
            self.check_against_a_clean_daemon(site)
            assert site.terminate() == 0
        self.check_every_id()

    def check_every_id(self) -> None:
        """Each acknowledged id is in the store, and there once; the daemon has ended."""
        decode = msgspec.msgpack.Decoder(QueryRecord).decode
        stored: Counter[str] = Counter()
        with SqliteReader(self.data_dir / FILE) as reader:
            for block in list(reader.blocks(0.0, float("inf"))):
                records = reader.records(block.first_sequence)
                stored.update(decode(body).query_id for body in records)
        acknowledged = self.workload.acknowledged
        names = {query_id(number) for number in acknowledged["queries"]}
        names |= {trace_id(number) for number in acknowledged["traces"]}
        assert names - stored.keys() == set(), "lost"
        assert [name for name, count in stored.items() if count > 1] == [], "doubled"
        others = {name for name in stored if name not in names}
        assert all(name.startswith("alarm-") for name in others), others

    def check_against_a_clean_daemon(self, site: Daemon) -> None:
        """Counters and windows are those of a daemon that never failed."""
        clean = Workload(self.workload.base)
        clean.doubtful = {
            (kind, number)
            for kind, numbers in self.workload.acknowledged.items()
            for number in numbers
        }
        with self.daemon(self._folder / "clean") as other:
            clean.settle(other)
            traces = len(clean.acknowledged["traces"])
            eventually(
                lambda: int(other.total("ragmon_queries_total", pipeline="traced")) == traces,
                "every trace is a query",
                60,
            )
            if apart := _apart(_counters(site.page()), _counters(other.page())):
                raise AssertionError(apart)
            for pipeline in ("p0", "p1", "p2", "traced"):
                path = f"/v1/report?window=7d&pipeline={pipeline}"
                one, two = site.get(path).json, other.get(path).json
                assert _figures(one) == _figures(two), pipeline

    def check_notifications(self, site: Daemon) -> None:
        """The receiver has every notification of every incident, in order, and nothing else."""
        eventually(
            lambda: site.get("/v1/notifications").json["waiting"] == 0, "all is delivered", 60
        )
        incidents = site.get("/v1/incidents?state=all&limit=1000").json["incidents"]
        received: dict[str, list[str]] = defaultdict(list)
        for post in self.receiver.accepted:
            (alert,) = post.json["alerts"]
            if post.headers["webhook-id"] not in received[alert["fingerprint"]]:
                received[alert["fingerprint"]].append(post.headers["webhook-id"])
        stored = {one["id"]: [each["id"] for each in one["notifications"]] for one in incidents}
        assert received == stored
        for one in incidents:
            changes = [each["change"] for each in one["notifications"]]
            assert changes[0] == "opened", changes
            assert changes.count("opened") == 1, changes
            assert ("resolved" in changes) == (one["state"] == "resolved"), changes

    def totals(self, rounds: int) -> Totals:
        """What was promised and kept so far; a broken promise has raised before."""
        counts = {kind: len(numbers) for kind, numbers in self.workload.acknowledged.items()}
        return Totals(rounds, counts, len(self.receiver.accepted), 0, 0, self.lost_bytes)

    def lose_power(self, survivors: float) -> None:
        """Leave what a loss of power leaves."""
        self.lost_bytes += power.lose(self.data_dir, self.faults.durable, self._chance, survivors)


def killed(_: Crashes, site: Daemon) -> None:
    """End by kill -9."""
    site.kill()


def terminated(_: Crashes, site: Daemon) -> None:
    """End by SIGTERM, which must be orderly."""
    started = SystemClock().monotonic()
    assert site.terminate() == 0
    assert SystemClock().monotonic() - started < 30.0  # 10 s, on a machine that is not shared


def unplugged(crashes: Crashes, site: Daemon) -> None:
    """End by a loss of power: half of the times nothing unsynced survives, else some sectors."""
    site.kill()
    crashes.lose_power(crashes._chance.choice((0.0, 0.0, 0.3, 0.9)))


def _some(chance: random.Random, numbers: set[int]) -> Sequence[int]:
    return chance.sample(sorted(numbers), min(_SEVERAL, len(numbers)))


def _counted(page: str) -> dict[str, int]:
    """The counters of the pipelines of queries; the parser would take longer than all else."""
    return {
        name: sum(int(float(text)) for text in re.findall(_SAMPLE.format(name), page))
        for name in expected(defaultdict(set))
    }


def _counters(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Everything counted of the pipelines.

    Counters only grow: the failure mode that a query had before its label came stays counted, so
    that one depends on the order in which things came. Its windows are compared in the report.
    """
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): round(sample.value, 6)
        for sample in samples(page)
        if sample.labels.get("pipeline") in ("p0", "p1", "p2", "traced")
        and sample.name.endswith(("_total", "_count", "_sum", "_bucket"))
        and sample.name != "ragmon_failure_mode_total"
    }


def _apart(one: dict[Any, float], other: dict[Any, float]) -> dict[Any, Any]:
    """What differs, with both values."""
    return {
        key: (one.get(key), other.get(key))
        for key in one.keys() | other.keys()
        if one.get(key) != other.get(key)
    }


def _figures(report: Any) -> Any:
    """A report without what depends on the moment, and with sums that differ in order alike."""
    if isinstance(report, dict):
        return {
            key: _figures(value)
            for key, value in report.items()
            if key not in ("start", "to", "watermark", "alerts")
        }
    if isinstance(report, list):
        return [_figures(value) for value in report]
    return float(f"{report:.9g}") if isinstance(report, float) else report
