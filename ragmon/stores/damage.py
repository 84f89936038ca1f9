"""Rows of a store that cannot be read: each costs itself only, and is counted and reported once."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ragmon.errors import StoreCorruptError

_MOST_REMEMBERED = 10_000

KINDS = (
    "amendment",  # feedback, labels and verdicts of one query
    "block",  # neighbouring records
    "detection",  # the state of the detectors, or the open alerts
    "event",  # of an alert
    "index",  # that finds something else
    "minute",  # counts that detection looks back at
    "restatement",  # a correction that a restart repeats
    "run",  # of the id index
    "silence",
    "totals",  # the counters of the last snapshot
    "undeletable",  # a block that retention cannot delete
    "waiting",  # a change whose query has not come
    "windows",  # one bucket of the last snapshot
)


class DamagedRow(NamedTuple):
    """One row that cannot be read."""

    what: str  # one of ``KINDS``
    name: str  # the key of the row
    error: str


class Damage:
    """Everything unreadable that was met since the start; of a store and all its readers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], DamagedRow] = {}
        self._counts: Counter[str] = Counter()
        self._listeners: list[Callable[[DamagedRow], None]] = []

    def note(self, what: str, name: object, error: BaseException | str) -> None:
        """Count one row; the same row counts once."""
        row = DamagedRow(what, str(name), str(error))
        with self._lock:
            if (what, row.name) in self._rows:
                return
            self._counts[what] += 1
            if len(self._rows) >= _MOST_REMEMBERED:
                return
            self._rows[what, row.name] = row
            listeners = list(self._listeners)
        for listener in listeners:
            listener(row)

    @contextmanager
    def tolerated(self, what: str, name: object) -> Iterator[None]:
        """Note what is found damaged within, and go on after it."""
        try:
            yield
        except StoreCorruptError as error:
            self.note(what, name, error.__cause__ or error)  # without what to do about a file

    def listen(self, listener: Callable[[DamagedRow], None]) -> None:
        """Have a function called with each row, also with those met before."""
        with self._lock:
            before = list(self._rows.values())
            self._listeners.append(listener)
        for row in before:
            listener(row)

    def counts(self) -> dict[str, int]:
        """Number of rows by kind; 0 where there are none."""
        with self._lock:
            return {kind: self._counts[kind] for kind in sorted({*KINDS, *self._counts})}

    def rows(self) -> list[DamagedRow]:
        """The first rows that were met, in that order."""
        with self._lock:
            return list(self._rows.values())
