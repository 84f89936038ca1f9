"""Print the versions of ragmon, Python and SQLite."""

import argparse
import platform
import sqlite3

from ragmon import __version__
from ragmon.cli.console import say, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of a line")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    python, sqlite = platform.python_version(), sqlite3.sqlite_version
    if args.json:
        say_json({"ragmon": __version__, "python": python, "sqlite": sqlite})
    else:
        say(f"ragmon {__version__} (Python {python}, SQLite {sqlite})")
    return 0
