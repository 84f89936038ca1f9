"""Copy the embedded store while the daemon keeps running: into a file, or to a place for backups.

With --to each backup is checked as `ragmon verify` does, compressed, and named by its time in UTC,
with its SHA-256 beside it; beyond --keep the oldest are deleted. With --every it goes on until it
is told to end. Failures are logged and tried again after a pause; --textfile tells them to
Prometheus.
"""

import argparse
import os
import signal
import tempfile
from functools import partial
from pathlib import Path

import structlog

from ragmon import logs
from ragmon.backups import BackupError, complete, making
from ragmon.backups.making import BackupMade, StageProgress, make, no_progress
from ragmon.backups.textfile import BackupHealth
from ragmon.cli import flags
from ragmon.cli.backup_place import (
    data_dir_argument,
    described,
    place_of,
    require_embedded,
    take_data_dir,
)
from ragmon.cli.console import say, say_json
from ragmon.cli.progress import StageBar
from ragmon.cli.results import CopiedStore, MadeBackup
from ragmon.clock import Clock, SystemClock
from ragmon.config import Settings
from ragmon.counts import counted
from ragmon.errors import RagmonError, SettingsError
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 3_600.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} FILE | --to PLACE [--every TIME] [--keep N] [--textfile FILE] [--json]"
        " [--quiet] [--config FILE] [--data-dir DIR]"
    )
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="file to write; it must not exist"
    )
    parser.add_argument(
        "--to",
        metavar="PLACE",
        help="directory or s3://bucket/prefix (default: the setting backup.to)",
    )
    parser.add_argument(
        "--every",
        metavar="TIME",
        help="go on, with a backup at this interval, for example 6h (default: backup.every)",
    )
    parser.add_argument(
        "--keep", metavar="N", help="backups to keep there (default: backup.keep, 28)"
    )
    parser.add_argument(
        "--textfile",
        type=Path,
        metavar="FILE",
        help="metrics for the textfile collector of node_exporter, written after each backup",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    data_dir_argument(parser)


def run(args: argparse.Namespace, clock: Clock | None = None) -> int:
    """Copy it; `ragmon restore` reads what --to wrote."""
    os.umask(0o077)  # it holds questions and answers of users
    for name in ("to", "every", "keep"):
        if getattr(args, name) is not None:
            args.rest.append(f"--backup.{name}={getattr(args, name)}")
    take_data_dir(args)
    settings = flags.settings(args).settings
    require_embedded(settings, "backup")
    if args.file is None and settings.backup.to is None:
        args.parser.error("give a FILE, or --to PLACE")
    source = settings.data_dir / FILE
    if not source.exists():
        raise SettingsError(f"{source} does not exist", hint="Set data_dir to that of the daemon")
    if args.file is not None:
        return _copy(source, args.file, as_json=args.json, quiet=args.quiet)
    job = _BackupJob(settings, source, args.textfile, clock or SystemClock())
    if settings.backup.every is None:
        with StageBar([making.COPYING, making.COMPRESSING], quiet=args.quiet) as bar:
            made = job.run(bar.show)
        if args.json:
            say_json(_result(made, job.place.url))
        else:
            say(_described(made, job.place.url))
        return 0
    job.repeat(settings.backup.every)
    return 0


def _copy(source: Path, target: Path, *, as_json: bool, quiet: bool) -> int:
    with SqliteReader(source) as reader, StageBar([making.COPYING], quiet=quiet) as bar:
        reader.backup(target, partial(bar.show, making.COPYING))
    size = target.stat().st_size
    if as_json:
        say_json(CopiedStore(file=str(target), size_bytes=size))
        return 0
    say(f"{target}: {size:,} bytes. To restore it, stop ragmon and copy it to {source}.")
    return 0


def _result(made: BackupMade, where: str) -> MadeBackup:
    return MadeBackup(
        place=where,
        backup=described(made.backup),
        store_bytes=made.store_bytes,
        queries=made.records,
        deleted=made.deleted,
    )


def _described(made: BackupMade, where: str) -> str:
    text = (
        f"{where}: {made.backup.name}, {counted(made.records, 'query', 'queries')},"
        f" {made.store_bytes:,} bytes,"
        f" {made.backup.size_bytes:,} compressed; checked"
    )
    return f"{text}; deleted {len(made.deleted)} older" if made.deleted else text


class _BackupJob:
    """One store and one place."""

    def __init__(
        self, settings: Settings, source: Path, textfile: Path | None, clock: Clock
    ) -> None:
        self.place = place_of(settings.backup, clock)
        self._settings = settings
        self._source = source
        self._clock = clock
        self._health = BackupHealth(textfile, settings.backup.every or 0.0)

    def run(self, progress: StageProgress = no_progress) -> BackupMade:
        """One backup.

        Args:
            progress: see ``make``.

        Raises:
            RagmonError: it failed; the textfile says so too.
        """
        try:
            made = make(
                self._source,
                self.place,
                self._clock.now(),
                keep=self._settings.backup.keep,
                scratch=Path(tempfile.gettempdir()),
                progress=progress,
            )
        except RagmonError:
            self._health.note_failure(self._clock.now())
            raise
        self._health.note_success(made.backup)
        return made

    def repeat(self, every_s: float) -> None:
        """Back up at an interval until SIGTERM; what is there already counts."""
        logs.configure(self._settings.log.format, self._settings.log.level)
        log = structlog.get_logger("backup")
        signal.signal(signal.SIGTERM, _end)
        pause_s = self._until_due(every_s, log)
        failures = 0
        while True:
            self._clock.sleep(pause_s)
            started = self._clock.monotonic()
            try:
                made = self.run()
            except RagmonError as error:
                failures += 1
                pause_s = min(_FIRST_PAUSE_S * 2 ** (failures - 1), _LONGEST_PAUSE_S, every_s)
                log.error("backup_failed", error=str(error), retry_s=pause_s, failures=failures)
                continue
            failures = 0
            log.info(
                "backup_made",
                place=self.place.url,
                name=made.backup.name,
                queries=made.records,
                size_bytes=made.backup.size_bytes,
                deleted=made.deleted,
            )
            pause_s = max(0.0, every_s - (self._clock.monotonic() - started))

    def _until_due(self, every_s: float, log: "structlog.stdlib.BoundLogger") -> float:
        try:
            backups = complete(self.place)
        except BackupError as error:
            log.warning("backups_unknown", error=str(error))
            return 0.0
        if not backups:
            return 0.0
        return min(every_s, max(0.0, backups[-1].made_at + every_s - self._clock.now()))


def _end(_signal: int, _frame: object) -> None:
    raise SystemExit(0)  # what is not finished is removed on the way out
