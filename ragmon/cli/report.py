"""Print the report of a running daemon: every metric with its 95 % interval and samples."""

import argparse

from ragmon.api_schema import Report
from ragmon.cli import remote, window_flags
from ragmon.cli.console import say_json
from ragmon.cli.pipeline_names import unknown_pipeline
from ragmon.cli.rich_output import standard_output
from ragmon.cli.tables import report_view


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    parser.add_argument(
        "--window", default="24h", help="length of the window: 5m, 1h, 24h (default), 7d"
    )
    window_flags.pipeline_argument(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    asked = {"window": args.window, "pipeline": args.pipeline}
    session = remote.session(args)
    report = remote.get(session, args.url, "/v1/report", Report, **asked)
    if args.pipeline and not report.pipelines:
        every = remote.get(session, args.url, "/v1/report", Report, window=args.window)
        raise unknown_pipeline(
            f"no queries of a pipeline {args.pipeline!r} in the last {args.window}",
            args.pipeline,
            [pipeline.pipeline for pipeline in every.pipelines],
        )
    if args.json:
        say_json(report)
    else:
        standard_output(markup=False).print(report_view(report))
    return 0
