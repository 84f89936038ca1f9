"""Audit log: who changed what, and when, as JSON lines that are on disk before the answer.

A loop of its own writes, so that the event loop never waits for the disk.
"""

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import msgspec
import structlog
from msgspec.structs import replace

from ragmon.access import Permit
from ragmon.asgi import Scope
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Loop, LoopOwner
from ragmon.token_schema import AuditEntry
from ragmon.web.endpoint import Endpoint

FILE = "audit.jsonl"
_MOST_WAITING = 10_000  # entries
_MOST_TEXT = 2_000  # characters of a path or of a request
_FAILURES_EVERY_S = 60.0  # of the same kind from the same address
_MOST_FAILURES = 1_000  # kinds and addresses that are remembered, and recorded in a minute
_OTHERS = "(others)"  # address of the failures beyond, together
_IDLE_S = 30.0
_BLOCK_BYTES = 1 << 16

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AuditEntry).decode


class AuditFile:
    """A file of JSON lines that is rotated; for one thread at a time, save for reading."""

    def __init__(self, path: Path, *, max_bytes: int, files: int) -> None:
        """Make it; nothing is opened yet.

        Args:
            path: of the file; rotated ones have a number behind it, 1 being the newest.
            max_bytes: at which it is rotated.
            files: rotated ones that are kept.
        """
        self._path = path
        self._max_bytes = max_bytes
        self._files = files

    def append(self, entries: list[AuditEntry]) -> None:
        """Write entries to disk.

        Raises:
            OSError: the disk refused.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"  # by a power loss
            lines = b"".join(_encode(entry) + b"\n" for entry in entries)
            rest = memoryview(b"\n" + lines if torn else lines)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(descriptor)
            size = file.seek(0, os.SEEK_END)
        if size >= self._max_bytes:
            self._rotate()

    def entries(self, since: float, limit: int) -> list[AuditEntry]:
        """The newest entries from a moment on, newest first; damaged lines are left out."""
        newest: list[AuditEntry] = []
        for path in (self._path, *map(self._rotated, range(1, self._files + 1))):
            for line in _lines_backwards(path):
                with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                    entry = _decode(line)
                    if entry.at < since or len(newest) == limit:
                        return newest
                    newest.append(entry)
        return newest

    def _rotate(self) -> None:
        for number in range(self._files, 0, -1):
            older = self._path if number == 1 else self._rotated(number - 1)
            with contextlib.suppress(FileNotFoundError):
                older.replace(self._rotated(number))
        directory = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _rotated(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class AuditLog(LoopOwner):
    """Takes entries from any thread, and writes them on its own."""

    def __init__(self, file: AuditFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._waiting: deque[tuple[AuditEntry, Future[None]]] = deque()
        self._failures: dict[tuple[str, str, str], tuple[float, int]] = {}
        self._looked_at = 0.0  # monotonic; for failures that are over
        self._log = structlog.get_logger("audit")
        self.lost = 0  # entries that could not be written
        self.loop = Loop("audit", self._turn, self._log, finish=self.flush)

    def stop(self) -> None:
        """Write what waits, and end."""
        self.loop.stop(_IDLE_S)

    def record(self, entry: AuditEntry) -> Future[None]:
        """Have an entry written; the result is there once it is on disk, or lost."""
        future: Future[None] = Future()
        if len(self._waiting) >= _MOST_WAITING:
            self.lost += 1
            future.set_result(None)
            return future
        self._waiting.append((replace(entry, at=self._clock.now()), future))
        self.loop.wake()
        return future

    def note(self, what: str, outcome: str = "") -> None:
        """Record something that ragmon did by itself."""
        self.record(AuditEntry(who="ragmon", what=what, outcome=outcome))

    def changed(
        self, scope: Scope, permit: Permit, what: str, outcome: str, request: str = ""
    ) -> Future[None]:
        """Record a change that a request made, or was refused.

        Args:
            scope: of the request.
            permit: of its sender.
            what: name of the endpoint.
            outcome: status, or counts.
            request: body of the request, of which the beginning is kept.
        """
        return self.record(
            AuditEntry(
                who=permit.name,
                remote=remote_of(scope),
                what=what,
                outcome=outcome,
                path=_target(scope),
                request=request[:_MOST_TEXT],
            )
        )

    def labelled(self, scope: Scope, permit: Permit, counts: str) -> None:
        """Record a batch of people's verdicts, by its counts."""
        self.changed(scope, permit, "sendLabels", counts)

    def refused(self, scope: Scope, name: str, reason: str) -> None:
        """Record a token that was refused; once a minute for each kind and address, with counts.

        Many addresses share one entry, so that a flood does not rotate the changes away.
        """
        key, now = (remote_of(scope), name, reason), self._clock.monotonic()
        if key not in self._failures and not self._has_room(now):
            key = (_OTHERS, "", reason)
        noted_at, count = self._failures.get(key, (-_FAILURES_EVERY_S, 0))
        if now - noted_at < _FAILURES_EVERY_S:
            self._failures[key] = (noted_at, count + 1)
            return
        self._failures[key] = (now, 0)
        self.record(
            AuditEntry(
                who=key[1],
                remote=key[0],
                what="useToken",
                outcome=reason,
                path=_target(scope),
                repeated=count,
            )
        )

    def _has_room(self, now: float) -> bool:
        """True when one more kind or address can be remembered."""
        if len(self._failures) >= _MOST_FAILURES and now >= self._looked_at + 1.0:
            self._looked_at = now
            recent = now - _FAILURES_EVERY_S
            self._failures = {
                key: noted
                for key, noted in self._failures.items()
                if noted[0] > recent or key[0] == _OTHERS
            }
        return len(self._failures) < _MOST_FAILURES

    def entries(self, since: float, limit: int) -> list[AuditEntry]:
        """The newest entries from a moment on, newest first."""
        return self._file.entries(since, limit)

    def flush(self) -> None:
        """Write what waits; what the disk refuses is logged and counted."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        if not taken:
            return
        try:
            self._file.append([entry for entry, _ in taken])
        except OSError as error:
            self.lost += len(taken)
            self._log.error("audit_not_written", entries=len(taken), error=str(error))
        for _, future in taken:
            if future.set_running_or_notify_cancel():  # whoever waited may have gone
                future.set_result(None)

    def _turn(self) -> float:
        self.flush()
        return _IDLE_S


def build_audit(settings: Settings, clock: Clock, own: OwnMetrics) -> AuditLog:
    """The audit log of a daemon; its directory is there by the time it starts."""
    options = settings.audit
    path = settings.data_dir / FILE
    log = AuditLog(AuditFile(path, max_bytes=options.max_size, files=options.files), clock)
    own.watch_total(
        "ragmon_audit_lost_entries",
        "Entries of the audit log that could not be written; the changes were made. Look at the "
        "disk of data_dir.",
        lambda: log.lost,
    )
    return log


def remote_of(scope: Scope) -> str:
    """Address of whoever sent a request."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def flags_of(asked: Mapping[str, str], endpoint: Endpoint) -> str:
    """The part of a query string that names nobody: parameters that are true or false."""
    flags = [each.name for each in endpoint.parameters if each.type is bool]
    return "&".join(
        f"{name}={asked[name]}" for name in flags if asked.get(name) in ("true", "false")
    )


def _target(scope: Scope) -> str:
    """Method, path and query of a request."""
    query = scope.get("query_string", b"").decode("latin-1")
    target = f"{scope.get('method', '')} {scope.get('path', '')}" + (f"?{query}" if query else "")
    return target.strip()[:_MOST_TEXT]


def _lines_backwards(path: Path) -> Iterator[bytes]:
    """The lines of a file, the last one first, a block at a time."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        at, rest = file.seek(0, os.SEEK_END), b""
        while at > 0:
            start = max(0, at - _BLOCK_BYTES)
            file.seek(start)
            first, *lines = (file.read(at - start) + rest).split(b"\n")
            yield from (line for line in reversed(lines) if line)
            at, rest = start, first
        if rest:
            yield rest
