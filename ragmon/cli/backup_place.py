"""Arguments that `ragmon backup` and `ragmon restore` share, and the place of the backups."""

import argparse
import os
from pathlib import Path

from ragmon.backups import BackupPlace
from ragmon.backups.directory import DirectoryPlace
from ragmon.backups.s3 import S3Place
from ragmon.clock import Clock
from ragmon.config.sections import BackupSettings


def data_dir_argument(parser: argparse.ArgumentParser) -> None:
    """Declare data_dir, whose value argparse would else take for the first word of the command."""
    parser.add_argument(
        "--data_dir", "--data-dir", metavar="DIR", help="directory of the store (setting data_dir)"
    )


def take_data_dir(args: argparse.Namespace) -> None:
    """Make it a setting, as for other commands."""
    if args.data_dir is not None:
        args.rest.append(f"--data-dir={args.data_dir}")


def place_of(settings: BackupSettings, clock: Clock) -> BackupPlace:
    """The place that the settings name; nothing is asked of it yet."""
    url = settings.to or "."
    if not url.startswith("s3://"):
        return DirectoryPlace(Path(url))
    return S3Place(
        url,
        endpoint=_first(settings.endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        region=_first(settings.region, "AWS_REGION", "AWS_DEFAULT_REGION") or "us-east-1",
        clock=clock,
    )


def _first(configured: str, *variables: str) -> str:
    values = (configured, *(os.environ.get(name, "") for name in variables))
    return next((value for value in values if value), "")
