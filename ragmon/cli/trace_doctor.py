"""Show how OpenTelemetry traces are read: each field with its span and key, and missing ones."""

import argparse
import gzip
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.api_schema import (
    FieldExplanation,
    QueryExplanation,
    SpanLoss,
    SpanOutline,
    TraceEvaluation,
    TraceExplanation,
)
from ragmon.cli import remote
from ragmon.cli.console import say, say_json
from ragmon.cli.rich_output import standard_output
from ragmon.clock import SystemClock
from ragmon.errors import RagmonError
from ragmon.records import Tokens
from ragmon.terminal import json_line, one_line_each

if TYPE_CHECKING:
    from ragmon.sources.otlp.spans import Span


_WIDTH = 70
_MOST_LISTED = 12
_MOST_KEPT = 100  # traces that a daemon keeps for this


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="captured OTLP export requests: protobuf, JSON or JSON lines, may be gzipped",
    )
    parser.add_argument(
        "--last",
        type=int,
        metavar="N",
        help="the newest N complete traces of a running daemon (at most 100) instead of files",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="follow a running daemon: print each new trace once, until Ctrl-C; with --last N, the "
        "newest N first",
    )
    remote.arguments(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON instead of tables; with --watch a line a trace",
    )


def run(args: argparse.Namespace) -> int:
    """Explain every trace and print it."""
    if bool(args.files) == (args.last is not None or args.watch):
        args.parser.error("pass files, --last N or --watch")
    if args.last is not None and args.last < 1:
        args.parser.error(f"--last: {args.last} is less than 1")
    if args.watch:
        from ragmon.cli.trace_watch import TraceWatch, stop_at_interrupt  # noqa: PLC0415

        watch = TraceWatch(lambda: _newest(args, _MOST_KEPT), SystemClock().sleep, _printer(args))
        return stop_at_interrupt(lambda: watch.run(args.last or 0))
    is_live = args.last is not None
    traces = _newest(args, args.last) if is_live else list(_explain_files(args.files))
    if args.json:
        say_json(traces)
    else:
        console = standard_output(markup=False)
        for trace in traces:
            console.print(trace_view(trace))
        console.print(_summary(traces))
    return 0


def _newest(args: argparse.Namespace, most: int) -> list[TraceExplanation]:
    """The newest traces of the daemon, the oldest first."""
    opened = remote.session(args)
    return remote.get(opened, args.url, "/v1/traces", list[TraceExplanation], last=str(most))


def _printer(args: argparse.Namespace) -> Callable[[TraceExplanation], None]:
    """Prints one trace at once."""
    if args.json:
        return _say_json_line
    console = standard_output(markup=False)

    def show(trace: TraceExplanation) -> None:
        console.print(trace_view(trace))
        console.file.flush()

    return show


def _say_json_line(trace: TraceExplanation) -> None:
    say(json_line(trace))
    sys.stdout.flush()


def _explain_files(paths: Iterable[Path]) -> Iterator[TraceExplanation]:
    from ragmon.sources.otlp.doctor import explain  # noqa: PLC0415 - others start faster without
    from ragmon.sources.otlp.spans import pack, unpack  # noqa: PLC0415

    spans = [span for path in paths for span in _read(path)]
    bodies: dict[bytes, list[bytes]] = {}
    for part in pack(spans):
        bodies.setdefault(part.trace_id, []).append(part.body)
    now = SystemClock().now()
    for packed in bodies.values():
        yield explain(unpack(packed), now)


def _read(path: Path) -> Iterator["Span"]:
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
        reason = getattr(error, "strerror", None) or error
        raise RagmonError(f"cannot read {path}: {reason}") from error
    if body.lstrip()[:1] != b"{":
        requests = protobuf.decode(body)
        yield from (span for decoded in requests for span in decoded.spans)
        return
    lines = [line for line in body.splitlines() if line.strip()]
    is_lines = len(lines) > 1 and all(line.lstrip()[:1] == b"{" for line in lines)
    for request in lines if is_lines else [body]:
        yield from (span for decoded in json.decode(request) for span in decoded.spans)


def trace_view(trace: TraceExplanation) -> RenderableType:
    """One trace."""
    trace = one_line_each(trace)
    parts: list[RenderableType] = [
        Text.assemble((trace.trace_id, "bold"), f"  {trace.verdict}"),
        _spans_view(trace.spans),
    ]
    if trace.remedy:
        parts.append(Text(f"  {trace.remedy}", "yellow"))
    if trace.line:
        parts.append(_line_view(trace.line, None))
    parts += [_loss_view(loss) for loss in trace.losses[:_MOST_LISTED]]
    for query in trace.queries:
        parts += [_fields_view(query), *_missing_view(query)]
    parts += [_feedback_view(evaluation) for evaluation in trace.feedback]
    return Group(*parts, Text(""))


def _loss_view(loss: SpanLoss) -> Text:
    lost = " and ".join(
        f"{count:,} {kind}"
        for count, kind in ((loss.attributes, "attributes"), (loss.events, "events"))
        if count
    )
    return Text(f"  {loss.span[:_WIDTH]} lost {lost} in its SDK. {loss.advice}", "yellow")


def _spans_view(spans: list[SpanOutline]) -> Text:
    steps = [span for span in spans if span.role != "chain" or span.depth == 0]
    lines = [
        f"  {span.role:<10} {span.ms:>10,.1f} ms  {span.name[:_WIDTH]}"
        + ("  FAILED" if span.failed else "")
        for span in steps[:_MOST_LISTED]
    ]
    if len(spans) > len(lines):
        lines.append(f"  and {len(spans) - len(lines)} more spans")
    return Text("\n".join(lines), "dim")


def _fields_view(query: QueryExplanation) -> Table:
    table = Table(title=f"query {query.query_id}", title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("field", "value", "from key", "of span"):
        table.add_column(name, overflow="fold")
    for name, field in query.fields.items():
        table.add_row(name, _value(field), field.key or "resource", field.span or "")
        if field.doubt:
            table.add_row("", Text(f"doubtful: {field.doubt}", "yellow"), "", "")
    for stage, ms in (query.latency_ms or {}).items():
        table.add_row(f"latency {stage}", f"{ms:,.1f} ms", "start and end", "")
    return table


def _value(field: FieldExplanation) -> str:
    value = field.value
    if isinstance(value, list):
        ids = ", ".join(chunk.id for chunk in value[:5])
        return f"{len(value)} chunks: {ids}" if value else "no chunks"
    if isinstance(value, Tokens):
        counts = msgspec.to_builtins(value)
        return ", ".join(f"{kind} {count}" for kind, count in counts.items())
    text = " ".join(str(value).split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _missing_view(query: QueryExplanation) -> list[Text]:
    shown = []
    for missing in query.missing:
        shown.append(Text.assemble("  missing ", (missing.field, "yellow"), f": {missing.advice}"))
        if missing.line:
            shown.append(_line_view(missing.line, missing.framework))
    return shown


def _line_view(line: str, framework: str | None) -> Text:
    """A line to add to the application."""
    for_ = f"      {framework}: " if framework else "      "
    return Text.assemble((for_, "dim"), (line, "bold"))


def _feedback_view(evaluation: TraceEvaluation) -> Text:
    rating = evaluation.label if evaluation.score is None else evaluation.score
    return Text(f"  feedback {evaluation.name}: {rating}")


def _summary(traces: list[TraceExplanation]) -> Text:
    queries = [query for trace in traces for query in trace.queries]
    counts = Counter(missing.field for query in queries for missing in query.missing)
    counted = ", ".join(f"{field} in {count}" for field, count in counts.items())
    text = f"{len(traces)} traces, {len(queries)} queries"
    return Text(text + (f"; missing: {counted}" if counted else ""), "bold")
