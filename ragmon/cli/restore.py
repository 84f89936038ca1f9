"""Put a backup in the place of the store: fetched, checked by its SHA-256, and verified before.

FROM is a place that `ragmon backup --to` wrote to, or one backup in it. ragmon must not run. A
store that is there is only replaced with --force, and kept beside the new one under another name.
"""

import argparse
import os
from pathlib import Path

from ragmon.backups import Backup, BackupPlace, complete, is_backup
from ragmon.backups.restoring import UNPACKING, choose, fetch, put_in_place
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
from ragmon.cli.results import BackupListing, RestoredStore
from ragmon.clock import Clock, SystemClock
from ragmon.counts import counted
from ragmon.durations import rounded_duration_text
from ragmon.errors import SettingsError
from ragmon.stores.sqlite.lease import DirectoryLease
from ragmon.stores.sqlite.store import FILE


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} [FROM] [--list] [--force] [--json] [--quiet] [--config FILE]"
        " [--data-dir DIR]"
    )
    parser.add_argument(
        "place",
        nargs="?",
        metavar="FROM",
        help="directory, s3://bucket/prefix, or one backup in it; the newest is taken"
        " (default: the setting backup.to)",
    )
    parser.add_argument("--list", action="store_true", help="list the backups that are there")
    parser.add_argument(
        "--force", action="store_true", help="replace a store; it is kept under another name"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    data_dir_argument(parser)


def run(args: argparse.Namespace, clock: Clock | None = None) -> int:
    """Restore it, or list what there is."""
    os.umask(0o077)
    clock = clock or SystemClock()
    name = None
    if args.place is not None:
        parent, slash, last = args.place.rpartition("/")
        name = last if is_backup(last) else None
        args.rest.append(f"--backup.to={parent + slash or '.' if name else args.place}")
    take_data_dir(args)
    settings = flags.settings(args).settings
    require_embedded(settings, "restore")
    if settings.backup.to is None:
        args.parser.error("say FROM which place")
    place = place_of(settings.backup, clock)
    if args.list:
        return _list(place, clock.now(), as_json=args.json)
    _check_empty(settings.data_dir, force=args.force)
    backup = choose(place, name)
    if not args.json:
        say(f"{backup.name}: {backup.size_bytes:,} bytes, made {_age(backup, clock.now())} ago")
    lock = DirectoryLease(settings.data_dir)
    try:
        with StageBar([UNPACKING], quiet=args.quiet) as bar:
            restored, result = fetch(place, backup, settings.data_dir, bar.show)
        aside = put_in_place(restored, settings.data_dir, clock.now())
    finally:
        lock.release()
    store = settings.data_dir / FILE
    if args.json:
        say_json(
            RestoredStore(
                store=str(store),
                backup=described(backup),
                queries=result.records,
                former_store=None if aside is None else str(aside),
            )
        )
        return 0
    if aside is not None:
        say(f"The store before is now {aside}; delete it when you are content.")
    say(
        f"{store}: {counted(result.records, 'query', 'queries')}, sound. What arrived in the"
        f" {_age(backup, clock.now())} since is not in it; ask again for erasures of that time."
    )
    return 0


def _list(place: BackupPlace, now: float, *, as_json: bool) -> int:
    backups = complete(place)
    if as_json:
        listed = [described(backup) for backup in backups]
        say_json(BackupListing(place=place.url, backups=listed))
        return 0
    if not backups:
        say(f"No backup is complete in {place.url}.")
    for backup in backups:
        say(f"{backup.name}  {backup.size_bytes:>15,} bytes  {_age(backup, now)} ago")
    return 0


def _age(backup: Backup, now: float) -> str:
    return rounded_duration_text(max(0.0, now - backup.made_at))


def _check_empty(data_dir: Path, *, force: bool) -> None:
    if (data_dir / FILE).exists() and not force:
        raise SettingsError(
            f"{data_dir / FILE} exists",
            hint="Use --force to replace it (it is kept under another name), or another data_dir",
        )
