"""Print what a running ragmon knows of a window: every rate with its interval and samples."""

import argparse
import json
import sys

from ragmon.cli import remote
from ragmon.cli.tables import report_view
from ragmon.evaluate.report.table import standard_output

NAME = "report"
HELP = "print the report of a running daemon"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    parser.add_argument("--window", default="24h", help="for example 5m, 1h, 24h (default), 7d")
    parser.add_argument("--pipeline", default="", help="only this one")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    report = remote.get(
        remote.session(args), args.url, "/v1/report", window=args.window, pipeline=args.pipeline
    )
    if args.json:
        json.dump(report, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        standard_output(markup=False).print(report_view(report))
    return 0
