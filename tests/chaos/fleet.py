"""The processes of a cluster, each started again whenever it has ended."""

import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ragmon.clock import Clock
from tests.faults.nursery import Nursery
from tests.support import metrics
from tests.support.closing import Closing
from tests.support.http import Site
from tests.support.kafka import Kafka
from tests.support.postgres import PostgresServer, find, needed, new_schema
from tests.support.wait import eventually

PARTITIONS = 8
LAG_S = 180.0
"""By which minutes are judged: longer than the broker is ever away, as what is written later than
that counts in the minute that is then open, in one process too."""
LEASE_S = 3.0
SESSION_S = 3.0
FROZEN_S = LEASE_S + 1.0  # beyond the session and the lease
TOPIC = "chaos"

BROKER = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(int(SESSION_S * 1000)),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
"""Sessions that end soon, in both protocols of groups."""
PROTOCOLS: Mapping[str, Mapping[str, Any]] = {
    "classic": {"session.timeout.ms": int(SESSION_S * 1000), "heartbeat.interval.ms": 500},
    "consumer": {"group.protocol": "consumer"},
}
"""librdkafka's options, by protocol: cooperative-sticky, and that of KIP-848."""
FORGETFUL = (
    "synchronous_commit=off", "wal_writer_delay=2s", "wal_writer_flush_after=64MB",
    "wal_buffers=16MB",
)  # fmt: skip
"""Flags of a server that loses the commits of its last seconds when it is killed.

Up to 16 it writes every full page at once, and loses less than a page; from 17 on it waits.
"""


class Member:
    """One process at a time of one part of the cluster."""

    def __init__(self, nursery: Nursery, data_dir: Path, flags: Sequence[str], patch: str) -> None:
        """Make it; nothing runs.

        Args:
            nursery: that forks.
            data_dir: of its own; its log lies beside.
            flags: of ``ragmon serve``.
            patch: module that changes it before it begins; empty: none.
        """
        self.pid = 0
        self.starts = 0
        self.is_frozen = False
        self.log = data_dir.with_name(data_dir.name + ".log")
        self._begins_at = 0
        self._nursery = nursery
        self._patch = patch
        self._command = [
            "serve", "--port", "0", "--data_dir", str(data_dir), "--log.format", "json", *flags,
        ]  # fmt: skip

    def start(self) -> None:
        """Start it, without waiting for it."""
        self._begins_at = self.log.stat().st_size if self.log.exists() else 0
        self.starts += 1
        folder = str(self.log.parent)
        self.pid = self._nursery.ask(
            start=self._command, log=str(self.log), folder=folder, patch=self._patch
        )

    @property
    def is_running(self) -> bool:
        """False once it has ended, by itself or not."""
        if not self.pid:
            return False
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] != "Z"

    def kill(self) -> None:
        """As kill -9 ends it."""
        self.end(signal.SIGKILL)

    def end(self, number: int) -> int:
        """End it by a signal, and return its exit status."""
        pid, self.pid, self.is_frozen = self.pid, 0, False
        return self._nursery.ask(signal=number, pid=pid) if pid else 0

    def freeze(self) -> None:
        """Stop it where it is."""
        os.kill(self.pid, signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        if self.is_frozen:
            os.kill(self.pid, signal.SIGCONT)
            self.is_frozen = False

    def events(self) -> list[dict[str, Any]]:
        """What it logged since it was started last."""
        if not self.log.exists():
            return []
        lines = self.log.read_bytes()[self._begins_at :].splitlines()
        return [msgspec.json.decode(line) for line in lines if line.startswith(b"{")]

    def site(self) -> Site:
        """Where it answers.

        Raises:
            AssertionError: it does not listen.
        """
        said = eventually(
            lambda: [each["url"] for each in self.events() if each.get("event") == "listening"],
            "it listens", 60,
        )  # fmt: skip
        return Site(said[-1])

    def total(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples; 0 where it does not answer."""
        try:
            return metrics.total(self.site().page(), name, **labels)
        except (OSError, AssertionError):
            return 0.0


class Fleet(Closing):
    """Broker, database, workers, evaluators, and a daemon that reads the same topic alone."""

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        protocol: str = "classic",
        database: Sequence[str] = FORGETFUL,
        patch: str = "",
    ) -> None:
        """Start the broker and the database.

        Args:
            folder: for data and logs.
            clock: to wait by.
            protocol: of the group.
            database: flags of the server.
            patch: module that changes the workers.
        """
        self.folder = folder
        self.clock = clock
        self.schema = new_schema()
        self.server = PostgresServer(find("17") or needed(), *database)
        self.server.start()
        (folder / "kafka").mkdir()
        self.kafka = Kafka(folder / "kafka", BROKER)
        self.kafka.create(TOPIC, PARTITIONS)
        self.nursery = Nursery({"PYTHONHASHSEED": "0"})
        self.workers = [self._member("worker", at, protocol, patch) for at in range(3)]
        self.evaluators = [self._member("evaluator", at, protocol, "") for at in range(2)]
        self.reference = Member(self.nursery, folder / "reference", self._reference_flags(), "")

    def close(self) -> None:
        """Kill everything."""
        for member in self.members:
            member.thaw()
        self.nursery.close()
        self.kafka.kill()
        self.server.remove()

    @property
    def members(self) -> list[Member]:
        """Whoever is started again: all but the daemon that nobody touches."""
        return [*self.evaluators, *self.workers]

    def start(self) -> None:
        """Start all, and wait until every partition has an owner."""
        for member in (*self.evaluators, self.reference, *self.workers):
            member.start()
        eventually(self.is_owned, "every partition has an owner", 90)

    def is_owned(self) -> bool:
        """True once every partition has one owner."""
        owned = sum(each.total("ragmon_shard_owned") for each in self.workers)
        return owned == PARTITIONS

    def revive(self) -> None:
        """Start again whoever has ended."""
        for member in self.members:
            if not member.is_running:
                member.kill()  # takes its exit status
                member.start()

    def counted(self) -> float:
        """Queries that whoever has the lease has counted; 0 while nobody has."""
        return max(each.total("ragmon_queries_total") for each in self.evaluators)

    def stop(self) -> None:
        """End all daemons in order."""
        for member in (*self.workers, *self.evaluators[::-1], self.reference):
            member.thaw()
            member.end(signal.SIGTERM)

    def crash_database(self, down_s: float) -> int:
        """Kill the server, and start it after some seconds; returns the commits that it forgot."""
        commits = f"SELECT coalesce(sum(commits), 0)::int FROM {self.schema}.shards"
        [(before,)] = self.server.execute(commits)
        self.server.kill()
        self.clock.sleep(down_s)
        self.server.start()
        [(after,)] = self.server.execute(commits)
        return max(0, before - after)

    def crash_broker(self) -> None:
        """Kill the broker, and start it again."""
        self.kafka.kill()
        self.kafka.start(within_s=180.0)

    def _member(self, role: str, at: int, protocol: str, patch: str) -> Member:
        store = {
            "kind": "postgresql",
            "dsn": self.server.url(),
            "schema_name": self.schema,
            "lease_s": LEASE_S,
        }
        flags = [
            "--store", json.dumps(store),
            "--sources", json.dumps([self._source("cluster", PROTOCOLS[protocol])]),
            "--replica.role", role, *_COMMON,
        ]  # fmt: skip
        if role == "evaluator":
            flags += ["--replica.standby", "true"]
        return Member(self.nursery, self.folder / f"{role}{at}", flags, patch)

    def _reference_flags(self) -> list[str]:
        return ["--sources", json.dumps([self._source("alone", {})]), *_COMMON]

    def _source(self, group: str, options: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "kind": "kafka",
            "brokers": [self.kafka.brokers],
            "topic": TOPIC,
            "group": group,
            "linger_s": 0.1,
            "options": dict(options),
        }


_COMMON = (
    "--judge.grounding.enabled", "false", "--snapshot_every", "1s", "--detectors.first_days", "0",
    "--detectors.lag", f"{LAG_S:g}s",
)  # fmt: skip
