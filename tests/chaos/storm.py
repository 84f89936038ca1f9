"""Kills and freezes at random instants while a topic is written, and a verdict on what is left."""

import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.chaos.fleet import FROZEN_S, TOPIC, Fleet, Member
from tests.chaos.traffic import Traffic
from tests.chaos.verdict import check_equal, stored
from tests.support.wait import eventually

_KILLS = {"worker": 9, "evaluator": 5, "PostgreSQL": 4, "Kafka": 2}  # of twenty
_FREEZES = {"frozen worker": 3, "frozen evaluator": 2}  # of five
_SETTLED_S = 180.0
_TICK_S = 0.1
_DOWN_S = (0.0, 2.0)  # for which a killed database stays away
_AGAIN = 0.02  # of the queries that are sent once more in the end


class Outcome(NamedTuple):
    """Of one storm."""

    ids: int
    repeats: int
    rated: int
    events: Counter[str]
    fenced: int  # writes that were refused, as far as their processes told
    forgotten: int  # commits that PostgreSQL forgot, at least
    lost: int
    doubled: int
    unjoined: int
    settled_s: float  # from the last event until everything was counted


class Storm:
    """One fleet, what is sent to it, and what is done to it."""

    def __init__(self, fleet: Fleet, traffic: Traffic, *, kills: int, freezes: int, seed: int):
        """Make it.

        Args:
            fleet: that runs.
            traffic: which begins with the storm.
            kills: of processes, in all.
            freezes: of daemons, beyond their session and lease.
            seed: of the instants and their order.
        """
        self.events: Counter[str] = Counter()
        self._fleet = fleet
        self._traffic = traffic
        self._forgotten = 0
        self._chance = random.Random(seed)
        self._frozen: list[tuple[float, Member]] = []  # thawed when
        self._due = [
            *self._chance.choices([*_KILLS], [*_KILLS.values()], k=kills),
            *self._chance.choices([*_FREEZES], [*_FREEZES.values()], k=freezes),
        ]
        self._chance.shuffle(self._due)

    def rage(self, lasts_s: float) -> None:
        """Do it all, spread over some seconds, and let the traffic end."""
        clock, traffic = self._fleet.clock, self._traffic
        gap_s = lasts_s / max(1, len(self._due))
        traffic.start()
        next_at = clock.monotonic() + gap_s
        while self._due or self._frozen or not traffic.is_over:
            self._thaw(clock.monotonic())
            self._fleet.revive()
            if self._due and clock.monotonic() >= next_at:
                self._strike(self._due.pop())
                next_at = clock.monotonic() + self._chance.uniform(0.5, 1.5) * gap_s
            clock.sleep(_TICK_S)
        traffic.check()

    def settle(self, within_s: float = _SETTLED_S) -> Outcome:
        """Wait until everything is counted, and judge.

        Args:
            within_s: seconds to wait.

        Raises:
            AssertionError: something is lost, doubled, or counted otherwise than by one process.
        """
        fleet, traffic, clock = self._fleet, self._traffic, self._fleet.clock
        began = clock.monotonic()
        deadline = began + within_s
        self._wait(lambda: fleet.reference.total("ragmon_queries_total") >= traffic.ids, deadline)
        self._wait(lambda: fleet.counted() >= traffic.ids, deadline)
        settled_s = clock.monotonic() - began
        eventually(fleet.is_owned, "every partition has an owner", _SETTLED_S)
        self._recognise_repeats()
        fenced = sum(each.total("ragmon_fenced_total") for each in fleet.members)
        counted = [fleet.counted(), self._rated(), fleet.reference.total("ragmon_feedback_total")]
        fleet.stop()
        left = stored(fleet, traffic)
        print(f"{left}, counted {counted}", file=sys.stderr, flush=True)
        assert (left.lost, left.doubled, left.waiting) == (0, 0, 0), left
        assert counted == [traffic.ids, traffic.rated, traffic.rated], counted
        check_equal(fleet, fleet.folder / "verdict")
        return Outcome(
            traffic.ids, traffic.repeats, traffic.rated, self.events, int(fenced),
            self._forgotten, left.lost, left.doubled, left.waiting, settled_s,
        )  # fmt: skip

    def _wait(self, check: Callable[[], bool], deadline: float) -> None:
        """Until something is true; whoever ends meanwhile is started again."""
        clock = self._fleet.clock
        while not check():
            if clock.monotonic() >= deadline:
                raise AssertionError(self._unsettled())
            self._fleet.revive()
            clock.sleep(0.5)

    def _unsettled(self) -> str:
        fleet = self._fleet
        counted = {
            each.log.stem: each.total("ragmon_queries_total")
            for each in (*fleet.evaluators, fleet.reference)
        }
        return f"not settled: {stored(fleet, self._traffic)}, counted {counted}"

    def _recognise_repeats(self) -> None:
        """Queries of any age that are sent once more are known to whoever has their partition."""
        workers = self._fleet.workers

        def duplicates() -> float:
            return sum(each.total("ragmon_duplicates_total") for each in workers)

        before = duplicates()
        sent = self._traffic.repeat(_AGAIN)
        eventually(lambda: duplicates() - before >= sent, "every repeat is recognised", 60)
        assert duplicates() - before == sent

    def _rated(self) -> float:
        return max(each.total("ragmon_feedback_total") for each in self._fleet.evaluators)

    def _strike(self, kind: str) -> None:
        fleet = self._fleet
        if kind == "PostgreSQL":
            self._forgotten += fleet.crash_database(self._chance.uniform(*_DOWN_S))
        elif kind == "Kafka":
            fleet.crash_broker()
        else:
            self._strike_daemon(kind)
        self.events[kind] += 1

    def _strike_daemon(self, kind: str) -> None:
        fleet = self._fleet
        members = fleet.workers if kind.endswith("worker") else fleet.evaluators
        if kind == "frozen evaluator" or kind == "evaluator":
            active = [each for each in members if each.total("ragmon_leader")]
            members = active or members
        awake = [each for each in members if not each.is_frozen and each.pid] or members
        member = self._chance.choice(awake)
        if kind.startswith("frozen") and not member.is_frozen:
            member.freeze()
            seconds = FROZEN_S + self._chance.uniform(0.0, 2.0)
            self._frozen.append((fleet.clock.monotonic() + seconds, member))
        else:
            self._frozen = [each for each in self._frozen if each[1] is not member]
            member.kill()

    def _thaw(self, now: float) -> None:
        for due, member in self._frozen:
            if now >= due:
                member.thaw()
        self._frozen = [each for each in self._frozen if now < each[0]]


def traffic_for(fleet: Fleet, *, ids: int, lasts_s: float, seed: int) -> Traffic:
    """What is sent to a fleet, which survives the death of the broker."""
    producer = fleet.kafka.client(
        enable_idempotence=True, compression_type="zstd", message_timeout_ms=600_000
    )
    return Traffic(producer, TOPIC, ids=ids, lasts_s=lasts_s, seed=seed, clock=fleet.clock)
