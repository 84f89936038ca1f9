"""Print the versions of ragmon, Python and SQLite."""

import argparse
import platform
import sqlite3

from ragmon import __version__
from ragmon.cli.console import say


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments: none."""


def run(_: argparse.Namespace) -> int:
    """Print it."""
    say(
        f"ragmon {__version__} (Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version})"
    )
    return 0
