"""Put two evaluations side by side: what changed, by how much, and in which cases.

Exit status: 0 done, 2 the data cannot be used.
"""

import argparse
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from ragmon.cli.evaluate import write
from ragmon.errors import RagmonError
from ragmon.evaluate.comparison import compare
from ragmon.evaluate.document import load
from ragmon.evaluate.preference import NOT_CONFIGURED
from ragmon.evaluate.report import table

NAME = "compare"
HELP = "two evaluations side by side"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("first", type=Path, help="what `ragmon evaluate --json` wrote")
    parser.add_argument("second", type=Path, help="the same of the other system")
    parser.add_argument("--moves", type=int, default=20, help="cases to list")
    parser.add_argument(
        "--noise", action="store_true", help="the second answered with noise added: what is lost"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="everything as JSON")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    try:
        comparison = compare(load(args.first), load(args.second), args.moves)
        if args.json is not None:
            write(args.json, msgspec.json.format(msgspec.json.encode(comparison), indent=1))
    except RagmonError as error:
        print(f"ragmon: {error}", file=sys.stderr)
        return 2
    console = Console()
    table.show_comparison(console, comparison)
    if args.noise:
        table.show_noise(console, comparison)
    console.print(f"[dim]pairwise preference: {NOT_CONFIGURED}[/]")
    return 0
