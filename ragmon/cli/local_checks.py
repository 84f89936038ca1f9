"""Checks of `ragmon doctor` on this machine: configuration, store and disk."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ragmon.cli.health_checks import Area, HealthFinding
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.config.units import size_text
from ragmon.counts import counted
from ragmon.daemon.startable import check_startable
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE

_LEAST_FREE = 1 << 30  # bytes: a day of a busy pipeline
_LEAST_SHARE = 0.05


def configuration(settings: Settings, clock: Clock) -> Iterator[HealthFinding]:
    """Everything that `ragmon serve` would refuse, and what it takes without protest."""
    area = Area("configuration")
    check_startable(settings, clock)
    yield area.ok("`ragmon serve` would start with these settings")
    if not settings.auth.tokens and settings.auth.allow_anonymous:
        yield area.warning(
            "everybody who reaches the port may read and change everything",
            "Configure auth.tokens: `ragmon token NAME` makes one",
        )


def store(settings: Settings) -> Iterator[HealthFinding]:
    """The store can be read, and written by whoever runs the daemon."""
    area = Area("store")
    path = settings.data_dir / FILE
    if settings.store.get("kind", "sqlite") != "sqlite":
        yield area.skipped(f"the store is {settings.store.get('kind')}, not a file of this machine")
        return
    if not path.is_file():
        yield area.skipped(
            f"there is no store in {settings.data_dir}",
            "Run the doctor where the daemon runs, with its data_dir, to have it checked",
        )
        return
    with SqliteReader(path) as reader:
        blocks = len(reader.block_times())
    owner = _owner(settings.data_dir)
    used = f", in use by process {owner}" if owner else ", in use by no daemon"
    yield area.ok(f"{path} can be read: {counted(blocks, 'block')}{used}")
    if not os.access(path, os.W_OK) or not os.access(settings.data_dir, os.W_OK):
        yield area.warning(
            f"{path} cannot be written by user {os.getuid()}",
            "Check the owner of data_dir, where the daemon runs as this user",
        )


def disk(settings: Settings) -> Iterator[HealthFinding]:
    """There is room for what is still to come."""
    area = Area("disk")
    folder = _existing(settings.data_dir)
    usage = shutil.disk_usage(folder)
    free, share = _gigabytes(usage.free), usage.free / usage.total
    room = f"{free} of {_gigabytes(usage.total)} are free on the disk of {settings.data_dir}"
    path = settings.data_dir / FILE
    size = path.stat().st_size if path.is_file() else 0
    most = settings.retention.max_disk
    if usage.free < _LEAST_FREE or share < _LEAST_SHARE:
        yield area.problem(room, "Free some space, or lower retention.max_disk")
    elif most is not None and usage.free + size < most:
        yield area.warning(
            f"{room}, less than retention.max_disk ({size_text(most)}) asks for",
            "Lower retention.max_disk, so that old queries go before the disk is full",
        )
    else:
        yield area.ok(room)


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


def _existing(folder: Path) -> Path:
    folder = folder.absolute()
    return next(place for place in (folder, *folder.parents) if place.exists())


def _owner(data_dir: Path) -> str:
    """Process that has the store open; empty: none."""
    path = data_dir / "lock"
    try:
        with path.open("r") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                number, _, address = file.read().strip().partition("\n")
                return f"{number}, at {address}" if address else number or "unknown"
    except OSError:
        return ""
    return ""
