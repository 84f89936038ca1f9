"""Counts of the records by outcome, and warnings to the application's log."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

_MAX_NOTICES = 200


class Stats(NamedTuple):
    """Counts since the process started, of one ``Monitor``.

    Every record is counted: ``logged + recovered == sent + queued + spooled + all dropped``.
    """

    logged: int  # calls of log_query, log_feedback and log_label
    queued: int  # in memory, not yet acknowledged
    queued_bytes: int
    spooled: int  # on disk, not yet acknowledged
    spooled_bytes: int  # of every process that shares the directory, as last seen
    recovered: int  # taken over from the spool of a process that ended
    sent: int  # acknowledged by the server
    duplicates: int  # of those sent, how many the server had already
    dropped: dict[str, int]  # by reason
    retries: int  # requests that have to be repeated
    bad_arguments: dict[str, int]  # by argument: it was left out, the rest was logged
    last_error: str  # the latest failure; empty after a success


class Notices:
    """Warnings that are logged once each, so that an outage does not flood the log."""

    def __init__(self) -> None:
        import logging  # noqa: PLC0415 - a fifth of what importing the client would cost

        self._log = logging.getLogger("ragmon.client")
        self._logged_keys: set[str] = set()

    def warn_once(self, key: str, message: str, *args: object) -> None:
        """Log a warning unless ``key`` was warned of before."""
        if key in self._logged_keys or len(self._logged_keys) >= _MAX_NOTICES:
            return
        self._logged_keys.add(key)
        with suppress(Exception):  # The application's handlers run here, and may raise.
            self._log.warning(message, *args)


class LogAccounting:
    """The counts; each change keeps the sum of ``Stats`` true, under one lock.

    The lock is reentrant, because a signal handler or a finaliser may log a query while its own
    thread is logging one.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.notices = Notices()
        self.logged = self.queued = self.queued_bytes = self.spooled = self.recovered = 0
        self.dropped: Counter[str] = Counter()
        self._sent = self._duplicates = self._retries = 0
        self._bad_arguments: Counter[str] = Counter()
        self._last_error = ""

    def resized(self, change: int) -> None:
        """A record held in memory takes ``change`` more bytes than estimated."""
        with self.lock:
            self.queued_bytes += change

    def removed(self, records: int, size: int, *, spooled: bool) -> None:
        """Records leave the memory, or the disk."""
        if spooled:
            self.spooled -= records
        else:
            self.queued -= records
            self.queued_bytes -= size

    def delivered(self, records: int, size: int, duplicates: int, *, spooled: bool) -> None:
        """Count records that the server has."""
        with self.lock:
            self.removed(records, size, spooled=spooled)
            self._sent += records
            self._duplicates += duplicates

    def drop(self, reason: str, records: int, size: int, *, spooled: bool = False) -> None:
        """Count records that are given up."""
        with self.lock:
            self.removed(records, size, spooled=spooled)
            self.dropped[reason] += records

    def spool(self, records: int, size: int) -> None:
        """Count records that moved from memory to disk."""
        with self.lock:
            self.removed(records, size, spooled=False)
            self.spooled += records

    def recover(self, records: int) -> None:
        """Count records left on disk by a process that ended."""
        with self.lock:
            self.recovered += records
            self.spooled += records

    def failed(self, error: str) -> None:
        """Note a request that has to be repeated."""
        with self.lock:
            self._retries += 1
            self._last_error = error

    def succeeded(self) -> None:
        """Forget the last error: the server answers as it should."""
        self._last_error = ""

    def bad_argument(self, name: str, error: object) -> None:
        """Count an argument that cannot be used; the record is kept without it."""
        with self.lock:
            self._bad_arguments[name] += 1
        self.notices.warn_once(f"argument {name}", "ragmon: `%s` is left out: %s", name, error)

    def stats(self, spooled_bytes: int) -> Stats:
        """The counts as of one moment."""
        with self.lock:
            return Stats(
                logged=self.logged,
                queued=self.queued,
                queued_bytes=self.queued_bytes,
                spooled=self.spooled,
                spooled_bytes=spooled_bytes,
                recovered=self.recovered,
                sent=self._sent,
                duplicates=self._duplicates,
                dropped=dict(self.dropped),
                retries=self._retries,
                bad_arguments=dict(self._bad_arguments),
                last_error=self._last_error,
            )


class ErrorBoundary:
    """Keeps errors inside from reaching the application: counted by place, logged once.

    The documents and values of an application run its own code when they are read, so anything
    may be raised; ``KeyboardInterrupt`` and ``SystemExit`` pass.
    """

    def __init__(self, accounting: LogAccounting, place: str) -> None:
        self._accounting = accounting
        self.place = place

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        if kind is None or not issubclass(kind, Exception):
            return False
        # Its first argument only: str() of an application's exception may itself raise.
        words = next(iter(error.args), "") if error is not None else ""
        self._accounting.bad_argument(
            self.place, words if isinstance(words, str) else kind.__name__
        )
        return True
