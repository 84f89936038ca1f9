"""Show which documents are behind bad answers, came, went, or are retrieved in vain.

Asks a running daemon. --all names every document that could be retrieved, one id a line; those
that were not are listed as dead.
"""

import argparse
import itertools
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.cli import remote, window_flags
from ragmon.cli.console import say_json
from ragmon.cli.csv_output import say_csv
from ragmon.cli.pipeline_names import check_pipeline
from ragmon.cli.progress import waiting
from ragmon.cli.rich_output import standard_output
from ragmon.counts import counted
from ragmon.documents.live import LiveDocumentList, LivePipeline
from ragmon.documents.report import (
    DocumentFigures,
    DocumentFinding,
    DocumentReport,
    OutcomeFigures,
)
from ragmon.errors import SettingsError
from ragmon.percentages import percent_text
from ragmon.terminal import one_line_each
from ragmon.web.document_endpoints import DEFAULT_K, DEFAULT_SINCE, UNITS

_MOST_DEAD = 50  # that are printed
_UNKNOWN = "–"
_COLUMNS = (
    "pipeline", "id", "source", "findings", "retrieved", "share", "mean_rank", "cited",
    "with_citations", "relevant", "below_k", "missed", "rated", "disliked",
    "disliked_like_questions", "judged", "unfaithful", "unfaithful_like_questions",
    "first_seen", "last_seen",
)  # fmt: skip


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    window_flags.pipeline_argument(parser)
    window_flags.since_argument(parser, DEFAULT_SINCE)
    window_flags.until_argument(parser)
    parser.add_argument(
        "--by", choices=UNITS, default=UNITS[0], help="count chunks (default) or their sources"
    )
    parser.add_argument(
        "--k",
        default=str(DEFAULT_K),
        metavar="N",
        help=f"rank below which a relevant document is lost (default {DEFAULT_K})",
    )
    parser.add_argument(
        "--changed", default="", metavar="TIME", help="list what appeared or vanished then"
    )
    parser.add_argument(
        "--release", default="", metavar="VERSION", help="list what appeared or vanished with it"
    )
    parser.add_argument(
        "--all",
        type=Path,
        metavar="FILE",
        help="ids of all documents there are, one a line; lists those never retrieved",
    )
    parser.add_argument("--limit", default="20", metavar="N", help="documents at most (default 20)")
    parser.add_argument(
        "--live",
        action="store_true",
        help="list what is retrieved most in this hour and the last, without reading the store;"
        " of the other choices only --pipeline, --limit and --json matter",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of tables")
    form.add_argument("--csv", action="store_true", help="print the documents as CSV")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    if args.live:
        return _run_live(args)
    every = None if args.all is None else _ids(args.all)
    names = ("pipeline", "since", "until", "by", "k", "changed", "release", "limit")
    asked = {name: getattr(args, name) for name in names if getattr(args, name)}
    asked |= {} if every is None else {"ids": "true"}
    session = remote.session(args)
    with waiting("Documents are being compared"):
        report = remote.get(session, args.url, "/v1/documents", DocumentReport, **asked)
    if not report.rows:
        check_pipeline(session, args.url, args.pipeline)
    dead = None if every is None else _dead(every, report)
    if args.json:
        content = msgspec.to_builtins(report)
        content.pop("retrieved_ids")
        say_json(content | ({} if dead is None else {"dead": dead}))
    elif args.csv:
        missing = (_dead_values(name) for name in dead or ())
        say_csv(_COLUMNS, itertools.chain(map(_values, report.rows), missing))
    else:
        shown = msgspec.structs.replace(report, retrieved_ids=None)
        standard_output(markup=False).print(view(one_line_each(shown), dead))
    return 0


def _run_live(args: argparse.Namespace) -> int:
    """Print the live lists."""
    if args.csv or args.all is not None:
        raise SettingsError(
            "--live goes neither with --csv nor with --all", hint="Leave one of them out"
        )
    asked = {name: getattr(args, name) for name in ("pipeline", "limit") if getattr(args, name)}
    session = remote.session(args)
    listed = remote.get(session, args.url, "/v1/documents/top", LiveDocumentList, **asked)
    if not listed.pipelines:
        check_pipeline(session, args.url, args.pipeline)
    if args.json:
        say_json(msgspec.to_builtins(listed))
    else:
        standard_output(markup=False).print(live_view(one_line_each(listed)))
    return 0


def live_view(listed: LiveDocumentList) -> RenderableType:
    """The live lists as tables."""
    if not listed.pipelines:
        return Text("No query retrieved anything in this hour and the last.")
    return Group(*itertools.chain.from_iterable(map(_live_parts, listed.pipelines)))


def _live_parts(pipeline: LivePipeline) -> tuple[RenderableType, RenderableType]:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("document", overflow="fold")
    for name in ("retrieved", "between", "part of all", "cited"):
        table.add_column(name, justify="right")
    for row in pipeline.documents:
        table.add_row(
            row.id,
            f"{row.retrieved.estimate:,}",
            f"{row.retrieved.lower:,} – {row.retrieved.upper:,}",
            percent_text(row.share),
            f"{row.cited.estimate:,}",
        )
    return Text(f"{pipeline.pipeline}: {counted(pipeline.queries, 'query', 'queries')}"), table


def view(report: DocumentReport, dead: list[str] | None = None) -> RenderableType:
    """The report as tables."""
    parts: list[RenderableType] = [
        Text(
            f"{counted(report.documents, 'document')} in"
            f" {counted(report.queries_with_chunks, 'query', 'queries')};"
            f" {counted(report.rated, 'answer')} rated, {report.judged:,} judged"
        )
    ]
    parts.append(_findings(report.findings) if report.findings else Text("Nothing stands out."))
    if report.rows:
        parts.append(_documents(report))
    if dead is not None:
        parts.append(Text(f"{counted(len(dead), 'document')} never retrieved", "bold"))
        parts += [Text(f"  {name}") for name in dead[:_MOST_DEAD]]
        if len(dead) > _MOST_DEAD:
            parts.append(Text(f"  and {len(dead) - _MOST_DEAD:,} more: see --json or --csv"))
    return Group(*parts)


def _findings(findings: list[DocumentFinding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("finding")
    table.add_column("document", overflow="fold")
    table.add_column("why", overflow="fold")
    for finding in findings:
        others = f" With: {', '.join(finding.others)}" if finding.others else ""
        table.add_row(finding.kind.replace("_", " "), finding.id, finding.text + others)
    return table


def _documents(report: DocumentReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(report.by, overflow="fold")
    for name in ("retrieved", "rank", "cited", f"lost@{report.k}", "disliked", "unfaithful"):
        table.add_column(name, justify="right")
    for row in report.rows:
        cited = row.cited.estimate if row.cited else None
        table.add_row(
            row.id,
            f"{row.retrieved:,}",
            _UNKNOWN if row.mean_rank is None else f"{row.mean_rank:.1f}",
            _share(cited),
            f"{row.below_k + row.missed:,}" if row.relevant else _UNKNOWN,
            _outcome(row.disliked),
            _outcome(row.unfaithful),
        )
    return table


def _outcome(figures: OutcomeFigures | None) -> str:
    if figures is None:
        return _UNKNOWN
    like = "" if figures.like_rate is None else f" / {_share(figures.like_rate)}"
    return f"{_share(figures.rate.estimate)}{like}"


def _share(value: float | None) -> str:
    return _UNKNOWN if value is None else percent_text(value)


def _ids(path: Path) -> list[str]:
    """The ids of a file, each once.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise SettingsError(
            f"cannot read {path}: {reason}", hint="Name a file with one id a line"
        ) from error
    return [*dict.fromkeys(filter(None, map(str.strip, lines)))]


def _dead(every: list[str], report: DocumentReport) -> list[str]:
    """Those that were not retrieved.

    Raises:
        SettingsError: not all that were retrieved are known.
    """
    if report.retrievals_left_out:
        raise SettingsError(
            "there are more documents than the daemon counts, so the dead ones are not known",
            hint="Ask for one pipeline with --pipeline, or for less time with --since",
        )
    retrieved = set(report.retrieved_ids or ())
    return [name for name in every if name not in retrieved]


def _dead_values(name: str) -> list[Any]:
    return ["", name, "", "dead", 0, *[""] * (len(_COLUMNS) - 5)]


def _values(row: DocumentFigures) -> list[Any]:
    cited = row.cited
    return [
        row.pipeline, row.id, row.source, " ".join(row.findings), row.retrieved, row.share,
        row.mean_rank, cited and cited.estimate, cited.samples if cited else 0, row.relevant,
        row.below_k, row.missed, *_outcome_values(row.disliked),
        *_outcome_values(row.unfaithful), row.first_seen, row.last_seen,
    ]  # fmt: skip


def _outcome_values(figures: OutcomeFigures | None) -> tuple[Any, Any, Any]:
    if figures is None:
        return 0, None, None
    return figures.answers, figures.rate.estimate, figures.like_rate
