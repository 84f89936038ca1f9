"""Show how traces were understood: each field, the span and key it came from, what is missing."""

import argparse
import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.cli import remote
from ragmon.clock import SystemClock
from ragmon.errors import RagmonError
from ragmon.evaluate.report.table import standard_output

NAME = "trace-doctor"
HELP = "show how OpenTelemetry traces were mapped, and what is missing"

_WIDTH = 70
_MOST_LISTED = 12


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="captured export requests: OTLP protobuf or JSON, or lines of JSON; .gz too",
    )
    parser.add_argument(
        "--last",
        type=int,
        metavar="N",
        help="instead of files, the newest N complete traces of a running daemon (at most 100)",
    )
    remote.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Explain and print."""
    if bool(args.files) == (args.last is not None):
        print("ragmon: name files, or --last N", file=sys.stderr)
        return 2
    if args.last is not None:
        opened = remote.session(args)
        explained = remote.get(opened, args.url, "/v1/traces", list, last=str(args.last))
    else:
        explained = list(_explain_files(args.files))
    if args.json:
        json.dump(explained, sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        console = standard_output(markup=False)
        for trace in explained:
            console.print(trace_view(trace))
        console.print(_summary(explained))
    return 0


def _explain_files(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    from ragmon.sources.otlp.doctor import explain  # noqa: PLC0415 - others start faster without
    from ragmon.sources.otlp.spans import pack, unpack  # noqa: PLC0415

    spans = [span for path in paths for span in _read(path)]
    bodies: dict[bytes, list[bytes]] = {}
    for part in pack(spans):
        bodies.setdefault(part.trace_id, []).append(part.body)
    now = SystemClock().now()
    for held in bodies.values():
        yield explain(unpack(held), now)


def _read(path: Path) -> Iterator[Any]:
    """The spans of a file.

    Raises:
        RagmonError: it cannot be read, or holds no OTLP.
    """
    from ragmon.sources.otlp.wire import (  # noqa: PLC0415 - protobuf is heavy
        json,
        protobuf,
    )

    try:
        body = path.read_bytes()
        body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    except (OSError, EOFError, zlib.error) as error:
        raise RagmonError(f"cannot read {path}: {error}") from error
    if body.lstrip()[:1] != b"{":
        requests = protobuf.decode(body)
        yield from (span for decoded in requests for span in decoded.spans)
        return
    lines = [line for line in body.splitlines() if line.strip()]
    is_lines = len(lines) > 1 and all(line.lstrip()[:1] == b"{" for line in lines)
    for request in lines if is_lines else [body]:
        yield from (span for decoded in json.decode(request) for span in decoded.spans)


def trace_view(trace: dict[str, Any]) -> RenderableType:
    """One trace."""
    parts: list[RenderableType] = [
        Text.assemble((trace["trace_id"], "bold"), f"  {trace['verdict']}"),
        _spans_view(trace["spans"]),
    ]
    for query in trace["queries"]:
        parts += [_fields_view(query), *_missing_view(query)]
    parts += [_feedback_view(each) for each in trace["feedback"]]
    return Group(*parts, Text(""))


def _spans_view(spans: list[dict[str, Any]]) -> Text:
    told = [each for each in spans if each["role"] != "chain" or each["depth"] == 0]
    lines = [
        f"  {each['role']:<10} {each['ms']:>10,.1f} ms  {each['name'][:_WIDTH]}"
        + ("  FAILED" if each["failed"] else "")
        for each in told[:_MOST_LISTED]
    ]
    if len(spans) > len(lines):
        lines.append(f"  and {len(spans) - len(lines)} more spans")
    return Text("\n".join(lines), "dim")


def _fields_view(query: dict[str, Any]) -> Table:
    table = Table(title=f"query {query['query_id']}", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("field", "value", "from key", "of span"):
        table.add_column(name, overflow="fold")
    for field, each in query["fields"].items():
        table.add_row(field, _value(each["value"]), each["key"] or "resource", each["span"] or "")
    for stage, took in (query["latency_ms"] or {}).items():
        table.add_row(f"latency {stage}", f"{took:,.1f} ms", "start and end", "")
    return table


def _value(value: Any) -> str:
    if isinstance(value, list):
        ids = ", ".join(str(chunk.get("id")) for chunk in value[:5])
        return f"{len(value)} chunks: {ids}" if value else "nothing was retrieved"
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    text = " ".join(str(value).split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _missing_view(query: dict[str, Any]) -> list[Text]:
    return [
        Text.assemble("  missing ", (each["field"], "yellow"), f": {each['advice']}")
        for each in query["missing"]
    ]


def _feedback_view(each: dict[str, Any]) -> Text:
    said = each.get("label") if each.get("score") is None else each.get("score")
    return Text(f"  feedback {each['name']}: {said}")


def _summary(traces: list[dict[str, Any]]) -> Text:
    queries = [query for trace in traces for query in trace["queries"]]
    missing: dict[str, int] = {}
    for query in queries:
        for each in query["missing"]:
            missing[each["field"]] = missing.get(each["field"], 0) + 1
    counted = ", ".join(f"{field} in {count}" for field, count in missing.items())
    text = f"{len(traces)} traces, {len(queries)} queries"
    return Text(text + (f"; missing: {counted}" if counted else ""), "bold")
