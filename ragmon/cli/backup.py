"""Copy the embedded store into a new file while the daemon keeps running."""

import argparse
import os
from pathlib import Path

from ragmon.cli import flags
from ragmon.cli.console import say
from ragmon.errors import SettingsError
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE

NAME = "backup"
HELP = "copy the store into a file, even while the daemon runs"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = f"{parser.prog} FILE [--config FILE] [--data-dir DIR]"
    parser.add_argument("file", type=Path, metavar="FILE", help="file to write; it must not exist")


def run(args: argparse.Namespace) -> int:
    """Copy it; to restore, put the file into an empty data_dir under the store's name."""
    os.umask(0o077)  # it holds questions and answers of users
    settings = flags.settings(args).settings
    source = settings.data_dir / FILE
    if not source.exists():
        raise SettingsError(f"{source} does not exist", hint="Set data_dir to that of the daemon")
    with SqliteReader(source) as reader:
        reader.backup(args.file)
    size = args.file.stat().st_size
    say(f"{args.file}: {size:,} bytes. To restore it, stop ragmon and copy it to {source}.")
    return 0
