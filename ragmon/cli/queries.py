"""List stored queries of a running daemon: those behind a number or an alert."""

import argparse

from rich import box
from rich.console import RenderableType
from rich.table import Table

from ragmon.api_schema import QueryDetail, QueryList
from ragmon.cli import query_flags, remote
from ragmon.cli.console import say_json
from ragmon.cli.pipeline_names import check_pipeline
from ragmon.cli.rich_output import standard_output
from ragmon.durations import minute_text
from ragmon.terminal import one_line_each
from ragmon.web.query_endpoints import ORDERS

_TEXT = 60  # characters of a question


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    query_flags.arguments(parser, since="1h")
    parser.add_argument("--order", choices=ORDERS, default="newest", help="first of them")
    parser.add_argument("--cursor", metavar="TEXT", help="go on after a page: its next cursor")
    parser.add_argument("--limit", default="20", metavar="N", help="at most so many (default 20)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    asked = query_flags.parameters(args) | {"order": args.order, "limit": args.limit}
    asked |= {"cursor": args.cursor} if args.cursor else {}
    session = remote.session(args)
    if args.json:
        content = remote.get(session, args.url, "/v1/queries", dict, **asked)
        if not content["queries"]:
            check_pipeline(session, args.url, args.pipeline)
        say_json(content)
    else:
        listed = remote.get(session, args.url, "/v1/queries", QueryList, **asked)
        if not listed.queries:
            check_pipeline(session, args.url, args.pipeline)
        output = standard_output(markup=False)
        output.print(_view(one_line_each(listed).queries))
        if listed.matches is not None and listed.next_cursor:
            more = "at least " if listed.matches_at_least else ""
            output.print(f"{more}{listed.matches:,} fit; go on with --cursor {listed.next_cursor}")
    return 0


def _view(queries: list[QueryDetail]) -> RenderableType:
    if not queries:
        return "No query fits."
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("asked", "query id", "version", "failed in"):
        table.add_column(name)
    table.add_column("ms", justify="right")
    table.add_column("query", overflow="ellipsis", no_wrap=True)
    for query in queries:
        record, latency = query.record, query.record.latency_ms
        total = None if latency is None else latency.total
        table.add_row(
            minute_text(record.timestamp),
            record.query_id,
            record.version,
            query.failure_mode,
            "–" if total is None else f"{total:,.0f}",
            (record.query or "")[:_TEXT],
        )
    return table
