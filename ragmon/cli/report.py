"""Print the report of a running daemon: every metric with its 95 % interval and samples."""

import argparse

from ragmon.api_schema import Report
from ragmon.cli import remote
from ragmon.cli.console import say_json
from ragmon.cli.rich_output import standard_output
from ragmon.cli.tables import report_view


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    parser.add_argument(
        "--window", default="24h", help="length of the window: 5m, 1h, 24h (default), 7d"
    )
    parser.add_argument("--pipeline", default="", help="only this pipeline")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    asked = {"window": args.window, "pipeline": args.pipeline}
    session = remote.session(args)
    if args.json:
        content = remote.get(session, args.url, "/v1/report", dict, **asked)
        say_json(content)
    else:
        report = remote.get(session, args.url, "/v1/report", Report, **asked)
        standard_output(markup=False).print(report_view(report))
    return 0
