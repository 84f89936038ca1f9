"""Detection over shards that lag behind one another, with restarts: alerts as of one process."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from ragmon.alerts import AlertEvent
from ragmon.alerts.timeline import AlertTimeline
from ragmon.daemon.alerting.feed import feed
from ragmon.detectors import MINUTE_S
from ragmon.detectors.intake import ObservationBuffer
from ragmon.detectors.minutes import SavedMinute
from ragmon.records import Position
from ragmon.windows.observations import Observations, pack
from tests.scenarios.story import COLUMNS, Incident, Story, live, queries, timeline
from tests.support.journal import MemoryJournal
from tests.support.vigil import known_by_stream

STORY = Story(
    title="errors, and then nothing",
    history=150,
    lasts=90,
    rate=0.7,
    loss={"error": 0.01, "hit": 0.08, "positive_feedback": 0.3},
    versions={"v1": 0.7, "v2": 0.3},
    canary_from=0,
    incidents=(
        Incident(at=10, lasts=25, loss={"error": 0.5}),
        Incident(at=60, lasts=10, traffic=0.0),
    ),
)
SHARDS = 3
_TURN_S = 20.0
_LAG_TURNS = 1  # a minute is judged so many turns after it is over


class ShardedDetection:
    """One detection after another over the journal of several shards."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows = np.random.default_rng(seed)
        self.journal = MemoryJournal(seed)
        self.events: list[AlertEvent] = []
        self._minutes: dict[tuple[int, int], SavedMinute] = {}
        self._saved = (b"", b"", {}, False)
        self._pending: list[tuple[int, int, Observations]] = []  # last turn, shard, records
        self.line: AlertTimeline
        self._buffer: ObservationBuffer
        self._positions: dict[int, Position]
        self._begin()

    def run(self) -> AlertTimeline:
        """Live through the story; returns the last detection."""
        turns = int(MINUTE_S // _TURN_S)
        for minute, batch in queries(STORY):
            for turn in range(turns):
                begins = minute * MINUTE_S + turn * _TURN_S
                last = (minute + 1) * turns - 1 + _LAG_TURNS
                self._send(last, batch, begins)
                self._commit(minute * turns + turn)
                self._turn(begins + _TURN_S)
        self._commit(last + turns)  # what the last minute still owes
        self.events += self._advance(begins + _TURN_S)
        return self.line

    def _begin(self) -> None:
        """Continue where the last turn was saved, as after kill -9."""
        self.line, self._buffer = timeline(STORY)
        state, book, self._positions, catching_up = self._saved
        self._positions = dict(self._positions)
        if state:
            self.line.load(state, book, self._in_order(), catching_up=catching_up)

    def _in_order(self) -> Iterator[SavedMinute]:
        return iter([self._minutes[key] for key in sorted(self._minutes)])

    def _send(self, last: int, batch: Observations | None, begins: float) -> None:
        if batch is None:
            return
        now = (batch.timestamps >= begins) & (batch.timestamps < begins + _TURN_S)
        owner = self.rows.integers(0, SHARDS, len(batch))
        for shard in range(SHARDS):
            rows = now & (owner == shard)
            if rows.any():
                self._pending.append((last, shard, batch.select(rows)))

    def _commit(self, turn: int) -> None:
        """Commit what is due, and of each shard some of what is not, in order."""
        kept = []
        stopped = {shard for shard in range(SHARDS) if self.chance.random() < 0.5}
        for last, shard, batch in self._pending:
            if shard in stopped and last > turn:
                kept.append((last, shard, batch))
            else:
                self.journal.log(shard, len(batch), pack(batch, COLUMNS))
        self._pending = kept

    def _turn(self, now: float) -> None:
        if self.chance.random() < 0.15:  # the process dies with a turn that was not saved
            self._advance(now)
            self._begin()
        events = self._advance(now)
        self.events += events
        self._save()

    def _advance(self, now: float) -> list[AlertEvent]:
        for entry in self.journal.follow(self._positions):
            feed(self._buffer, entry.change, COLUMNS)
            self._positions[entry.shard] = entry.position
        steps = list(self.line.advance(self._buffer.take(), now))
        return [event for step in steps for event in step.events]

    def _save(self) -> None:
        detection = self.line.detection
        changed = {(each.tier, each.bucket): each for each in detection.log.dump_dirty()}
        oldest = self.line.oldest
        kept = {key: each for key, each in self._minutes.items() if key[1] >= oldest[key[0]]}
        self._minutes = kept | changed
        book, catching_up = self.line.book.dump(), self.line.catching_up
        self._saved = (detection.dump(), book, dict(self._positions), catching_up)


@pytest.fixture(scope="module")
def alone():
    """Events of one process, and all that its detectors know."""
    line, buffer = timeline(STORY)
    events = []
    for minute, batch in queries(STORY):
        for turn in range(int(MINUTE_S // _TURN_S)):
            begins = minute * MINUTE_S + turn * _TURN_S
            if batch is not None:
                rows = (batch.timestamps >= begins) & (batch.timestamps < begins + _TURN_S)
                if rows.any():
                    buffer.log(batch.select(rows))
            for step in line.advance(buffer.take(), begins + _TURN_S):
                events += step.events
    assert events == live(STORY, _TURN_S)
    assert {event.change for event in events} >= {"firing", "resolved"}
    return events, known_by_stream(line.detection)


@pytest.mark.parametrize("seed", [1, 3])
def test_shards_that_lag_and_restarts_change_no_bit_of_the_detectors(alone, seed):
    sharded = ShardedDetection(seed)
    line = sharded.run()
    events, known = alone
    assert [(each.id, each.at, each.change) for each in sharded.events] == [
        (each.id, each.at, each.change) for each in events
    ]
    assert known_by_stream(line.detection) == known
