"""Windows counted anew from the store when the clock was wrong, beside those in use.

Queries without a timestamp that come while the clock is days ahead move the windows on: once it is
right again nothing is counted in them until the time of these queries comes. They stay stored, with
their times, and in the totals; windows count them when the clock gets there. A clock that was days
behind leaves the newest queries ahead of it in the same way, and these are counted again once it
is set.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import structlog
from msgspec.structs import replace

from ragmon.clock import Clock
from ragmon.daemon.ingest.engine import Engine
from ragmon.loops import beat, instant
from ragmon.records import Position, Positions, QueryRecord, shard_of
from ragmon.stores import (
    Block,
    BlockTimes,
    JournalEntry,
    Reader,
    Restatement,
    WindowSource,
    amendments,
)
from ragmon.windows.observations import Observations, unpack
from ragmon.windows.recount import Recount, RecountStretch
from ragmon.windows.snapshot import dump_totals

_HOUR_S = 3_600.0
AHEAD_S = _HOUR_S  # beyond max_clock_skew: no query that is taken lies so far ahead
STEADY_S = 60.0  # for which the clock must not have been set
_SET_S = 2.0  # a difference between two looks that no slow machine explains
_FEW = 500  # queries that may be left to the writer's thread
_MOST_ROUNDS = 20
_Item = TypeVar("_Item")
_decode = msgspec.msgpack.Decoder(QueryRecord).decode


class _Begun(NamedTuple):
    """Windows as they are when a recount begins."""

    totals: bytes
    saved: Positions  # of the windows on disk
    positions: Positions  # of the windows in use


class WindowRecounting:
    """A job: looks whether windows lie ahead of the clock, and counts them anew if so."""

    def __init__(self, engine: Engine, clock: Clock, ending: Callable[[], bool]) -> None:
        """Make it.

        Args:
            engine: whose windows these are.
            clock: of the daemon.
            ending: true once the daemon ends; then it is given up, and a restart does it.
        """
        self._engine = engine
        self._clock = clock
        self._skew_s = engine.max_clock_skew_s
        self._ending = ending
        self._offset: float | None = None  # of the wall clock against the monotonic one
        self._steady_since = 0.0  # monotonic
        self._left_out_from: float | None = None  # unix seconds, of what no window has counted
        self._is_looked_up = False
        self._log = structlog.get_logger("windows")

    def turn(self) -> None:
        """Count anew if that is due, and the clock is steady."""
        now = self._steady()
        if now is None:
            return
        if not self._is_looked_up:
            self._left_out_from = self._look_up()
            self._is_looked_up = True
        ahead_s = self._engine.windows.watermark - now
        is_reached = self._left_out_from is not None and self._left_out_from <= now + self._skew_s
        if ahead_s <= self._skew_s + AHEAD_S and not is_reached:
            return
        self._log.warning("windows_ahead_of_the_clock", ahead_s=round(ahead_s), now=instant(now))
        self._count_anew(now)

    def _steady(self) -> float | None:
        """Unix seconds; None while the clock was set a moment ago, or may have been."""
        wall, monotonic = self._clock.now(), self._clock.monotonic()
        offset = wall - monotonic
        if self._offset is None or abs(offset - self._offset) > _SET_S:
            self._steady_since = monotonic
        self._offset = offset
        return wall if monotonic - self._steady_since >= STEADY_S else None

    def _look_up(self) -> float | None:
        """The earliest stored query that the windows of before a restart left out."""
        newest = float(np.nextafter(self._engine.windows.watermark, np.inf))
        earliest = None
        with self._engine.store.reader() as reader:
            for block in reader.blocks(newest, np.inf):
                times = unpack(block.observations, ()).timestamps
                ahead = times[times >= newest]
                self._engine.recounts.left_out += len(ahead)
                earliest = min(float(ahead.min()), earliest or np.inf) if len(ahead) else earliest
        return earliest

    def _count_anew(self, now: float) -> None:
        engine, started = self._engine, self._clock.monotonic()
        engine.thread.ask(engine.pause_snapshots)  # they let go of what is still to be read
        try:
            with engine.store.reader() as reader:
                recount, positions = self._recount(reader, now)
                positions = self._catch_up(recount, reader, positions)
                if self._ending():
                    return
                engine.thread.ask(lambda: self._replace(recount, positions))
        finally:
            engine.thread.ask(engine.resume_snapshots)
        self._left_out_from = recount.left_out_from
        self._log.warning(
            "windows_counted_anew",
            since=instant(recount.stretch.begin),
            left_out=recount.left_out,
            took_s=round(self._clock.monotonic() - started, 1),
        )

    def _recount(self, reader: Reader, now: float) -> tuple[Recount, Positions]:
        """Windows up to one moment of the store, and the positions of that moment."""
        with contextlib.ExitStack() as moment:
            begun = self._engine.thread.ask(lambda: self._begin(reader, moment))
            times = reader.block_times()
            recount = Recount(self._engine.windows.empty(), begun.totals, self._stretch(times, now))
            _, _, buckets = reader.load_windows()
            recount.load(self._until_the_end(buckets))
            for block in self._until_the_end(times):
                self._fold(recount, reader, block)
            for entry in self._until_the_end(reader.follow(begun.saved)):
                self._count_before(recount, entry)
        return recount, begun.positions

    def _begin(self, reader: Reader, moment: contextlib.ExitStack) -> _Begun:
        engine = self._engine
        engine.mend()
        moment.enter_context(reader.moment())
        saved, _, _ = reader.load_windows()  # from this first look on it sees this moment
        if engine.others is not None:  # what workers committed until then is counted first
            engine.follow([*reader.follow(engine.positions)])
        return _Begun(dump_totals(engine.windows), saved, engine.positions)

    def _stretch(self, times: Sequence[BlockTimes], now: float) -> RecountStretch:
        """The last day, and all that was written since the first query that lies ahead."""
        finer, coarsest = self._engine.windows.tiers[-2:]
        end = now + self._skew_s + AHEAD_S
        begin = min(now - finer.width_s * finer.slots, self._left_out_from or now)
        for _, group in itertools.groupby(times, lambda block: shard_of(block.first_sequence)):
            begin = min(begin, _changed_since([*group], end, now))
        begin = max(begin, now - coarsest.width_s * coarsest.slots)
        return RecountStretch(begin // _HOUR_S * _HOUR_S, end)

    def _fold(self, recount: Recount, reader: Reader, times: BlockTimes) -> None:
        """Count a block as it is now: its queries, and what became known of them."""
        stretch = recount.stretch
        if times.last_timestamp < stretch.begin:
            return
        block = reader.block(times.first_sequence)
        if block is None:
            return  # it is damaged, which was counted
        logged = unpack(block.observations, self._engine.pipeline.columns)
        recount.fold(logged, since=stretch.begin)
        if block.amendments and times.first_timestamp < stretch.end:
            old, new = self._amended(reader, block, logged)
            recount.restate(old, new, since=stretch.begin)

    def _amended(
        self, reader: Reader, block: Block, logged: Observations
    ) -> tuple[Observations, Observations]:
        """The amended queries of a block as they were logged, and as they are."""
        bodies = {at - block.first_sequence: body for at, body in block.amendments.items()}
        records = reader.some_records(block.first_sequence, list(bodies))
        known = [amendments.decode(bodies[at]).known for at in records]
        new = self._engine.pipeline.observe([_decode(each) for each in records.values()], known)
        return logged.select(np.array(list(records), dtype=np.intp)), new

    def _count_before(self, recount: Recount, entry: JournalEntry) -> None:
        """Count of a commit that the saved windows lack what is before the stretch."""
        columns = self._engine.pipeline.columns
        if isinstance(entry.change, Restatement):
            old, new = (unpack(packed, columns) for packed in entry.change)
            recount.restate_before(old, new)
        else:
            recount.fold_before(unpack(entry.change, columns))

    def _catch_up(self, recount: Recount, reader: Reader, positions: Positions) -> Positions:
        """Count what was committed meanwhile, until little is left."""
        for _ in range(_MOST_ROUNDS):
            queries, positions = self._count(recount, reader, positions)
            if queries < _FEW:
                break
        return positions

    def _count(
        self, recount: Recount, source: WindowSource, positions: Positions
    ) -> tuple[int, Positions]:
        """Count what was committed after some positions; returns how many queries.

        Of what workers committed only as much as the windows in use have counted.
        """
        columns, reached, queries = self._engine.pipeline.columns, dict(positions), 0
        for entry in source.follow(positions):
            beat()
            if not self._engine.has_counted(entry):
                continue
            before = reached.get(entry.shard, Position())
            if isinstance(entry.change, Restatement):
                reached[entry.shard] = replace(before, restatement=entry.position.restatement)
                old, new = (unpack(packed, columns) for packed in entry.change)
                recount.restate(old, new)
            else:
                reached[entry.shard] = replace(before, sequence=entry.position.sequence)
                logged = unpack(entry.change, columns)
                recount.fold(logged)
                queries += len(logged)
        recount.counted.settle()
        return queries, reached

    def _replace(self, recount: Recount, positions: Positions) -> None:
        """Count the rest, and go on with what was counted anew; on the writer's thread."""
        engine = self._engine
        engine.mend()
        self._count(recount, engine.state, positions)
        recount.replace(engine.windows)
        engine.note_recount(recount.left_out)

    def _until_the_end(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """The items, with heartbeats, until the daemon ends."""
        for item in items:
            beat()
            if self._ending():
                return
            yield item


def _changed_since(times: Sequence[BlockTimes], end: float, now: float) -> float:
    """Time since which the windows may lack something of one shard; ``now``: of nothing.

    Args:
        times: of the blocks of the shard, in order.
        end: unix seconds; queries from then on lie ahead of the clock.
        now: unix seconds.
    """
    first = next((at for at, block in enumerate(times) if block.last_timestamp >= end), None)
    if first is None:
        return now
    # What was counted just before may not have been saved when the windows moved on.
    before = times[first - 1].last_timestamp - _HOUR_S if first else now
    return min(before, *(block.first_timestamp for block in times[first:]))
