"""Arguments that `ragmon backup` and `ragmon restore` share, and the place of the backups."""

import argparse
from pathlib import Path

from ragmon.backups import Backup, BackupPlace
from ragmon.backups.directory import DirectoryPlace
from ragmon.backups.s3 import s3_place
from ragmon.cli.results import StoredBackup
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.config.sections import BackupSettings
from ragmon.errors import SettingsError


def data_dir_argument(parser: argparse.ArgumentParser) -> None:
    """Declare data_dir, whose value argparse would else take for the first word of the command."""
    parser.add_argument(
        "--data_dir", "--data-dir", metavar="DIR", help="directory of the store (setting data_dir)"
    )


def take_data_dir(args: argparse.Namespace) -> None:
    """Make it a setting, as for other commands."""
    if args.data_dir is not None:
        args.rest.append(f"--data-dir={args.data_dir}")


def require_embedded(settings: Settings, command: str) -> None:
    """Refuse a store that has no file to copy.

    Raises:
        SettingsError: it is in a database.
    """
    kind = settings.store.get("kind", "sqlite")
    if kind != "sqlite":
        raise SettingsError(
            f"`ragmon {command}` is for the embedded store, and store.kind is {kind}",
            hint="A database has backups and checks of its own: pg_dump --schema of"
            " store.schema_name, or copies of the whole server; `ragmon copy-store` writes an"
            " embedded store of it",
        )


def place_of(settings: BackupSettings, clock: Clock) -> BackupPlace:
    """The place that the settings name; nothing is asked of it yet."""
    url = settings.to or "."
    if not url.startswith("s3://"):
        return DirectoryPlace(Path(url))
    return s3_place(url, endpoint=settings.endpoint, region=settings.region, clock=clock)


def described(backup: Backup) -> StoredBackup:
    """A backup for programs; its time is that in its name."""
    return StoredBackup(
        name=backup.name, size_bytes=backup.size_bytes, made_at=float(int(backup.made_at))
    )
