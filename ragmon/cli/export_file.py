"""File that grows beside its place, remembers how far it came, and appears there when whole."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragmon.cli.console import warn
from ragmon.clock import Clock
from ragmon.errors import RagmonError, SettingsError

_SAVE_EVERY_S = 1.0  # a sync for each page would take longer than the pages


class ExportState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The request of an export, and the part of it that is in the file."""

    origin: str  # the store or the daemon
    form: str
    asked: dict[str, str]  # as it was written
    parameters: dict[str, str]  # with ages as times, so that all parts select alike
    cursor: str = ""  # of the next page
    size_bytes: int = 0
    queries: int = 0
    is_done: bool = False


class ExportFile:
    """The unfinished file of one export."""

    def __init__(self, target: Path, clock: Clock) -> None:
        self._target = target
        self._part = target.with_name(f"{target.name}.part")
        self._progress = target.with_name(f"{target.name}.part.state")
        self._clock = clock

    @contextlib.contextmanager
    def opened(self, request: ExportState, *, resume: bool) -> Iterator["OpenExport"]:
        """The file to append to; with ``resume`` after the last part that is whole.

        Raises:
            SettingsError: another export writes it, or it is one of another request.
        """
        try:
            with self._part.open("a+b") as file:
                self._lock(file)
                state = (self._former(request, file) if resume else None) or request
                file.truncate(state.size_bytes)
                out = OpenExport(file, self._progress, state, self._clock)
                try:
                    yield out
                except RagmonError:
                    out.save()
                    if out.state.queries:
                        warn(f"{out.state.queries:,} queries are kept; go on with --resume")
                    raise
        except OSError as error:
            where = error.filename or self._part
            raise SettingsError(
                f"cannot write {where}: {error.strerror}", hint="Mend it, and go on with --resume"
            ) from error

    def publish(self, made: Path | None = None) -> None:
        """Put the whole file, or what was made of it, in its place."""
        source = made or self._part
        _sync(source)
        source.replace(self._target)
        _sync(self._target.parent)
        for path in (self._part, self._progress):
            path.unlink(missing_ok=True)

    def lines(self) -> Iterator[bytes]:
        """The lines of the whole file."""
        with self._part.open("rb") as file:
            yield from file

    @property
    def scratch(self) -> Path:
        """Place for what is made of it."""
        return self._target.with_name(f"{self._target.name}.part.made")

    def _lock(self, file: IO[bytes]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"another export writes {self._part}", hint="Wait for it, or name another file"
            ) from None

    def _former(self, request: ExportState, file: IO[bytes]) -> ExportState | None:
        """The state to go on from; None where nothing was begun."""
        try:
            former = msgspec.json.decode(self._progress.read_bytes(), type=ExportState)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise SettingsError(
                f"{self._progress} cannot be read", hint="Begin again without --resume"
            ) from None
        same = replace(former, cursor="", size_bytes=0, queries=0, is_done=False)
        if replace(same, parameters={}) != replace(request, parameters={}):
            raise SettingsError(
                f"{self._part} was begun with other arguments",
                hint="Give the same ones with --resume, or begin again without it",
            )
        if file.seek(0, os.SEEK_END) < former.size_bytes:
            raise SettingsError(
                f"{self._part} is shorter than when the export was interrupted",
                hint="Begin again without --resume",
            )
        return former


class OpenExport:
    """The file while it grows."""

    def __init__(self, file: IO[bytes], progress: Path, state: ExportState, clock: Clock) -> None:
        self.state = state
        self._file = file
        self._progress = progress
        self._clock = clock
        self._saved_at = clock.monotonic()
        self.save()

    def append(self, part: bytes, queries: int, cursor: str) -> None:
        """Write a page.

        Args:
            part: of the file.
            queries: on the page.
            cursor: of the next page; empty after the last one.
        """
        self._file.write(part)
        self.state = replace(
            self.state,
            cursor=cursor,
            size_bytes=self.state.size_bytes + len(part),
            queries=self.state.queries + queries,
            is_done=not cursor,
        )
        if not cursor or self._clock.monotonic() - self._saved_at >= _SAVE_EVERY_S:
            self.save()

    def save(self) -> None:
        """Remember how far it came, once that is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        fresh = self._progress.with_name(f"{self._progress.name}.new")
        fresh.write_bytes(msgspec.json.encode(self.state))
        fresh.replace(self._progress)
        self._saved_at = self._clock.monotonic()


def _sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
