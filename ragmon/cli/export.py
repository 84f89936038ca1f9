"""Write stored queries to a file: JSON lines, CSV, Parquet, or a golden set.

They come from the store of data_dir, even while its daemon runs, or with --url from a daemon, and
take little memory however many there are. The file appears when it is whole; until then it is
FILE.part, and --resume goes on after its last complete page. Parquet needs the extra `parquet`.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ragmon.cli import flags, query_flags, remote
from ragmon.cli.backup_place import data_dir_argument, take_data_dir
from ragmon.cli.console import say, say_json, warn
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.export_file import ExportFile, ExportState, OpenExport
from ragmon.cli.export_pages import DaemonPages, QueryPageReader, StorePages, selection_by
from ragmon.cli.progress import piece_bar
from ragmon.cli.results import WrittenExport
from ragmon.clock import Clock, SystemClock
from ragmon.counts import counted
from ragmon.daemon.build import build_pipeline, open_reader
from ragmon.errors import SettingsError
from ragmon.queries import exports, parquet
from ragmon.row_files import require_parquet

_FORMS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
_FORMATS = ("jsonl", "csv", "parquet", "golden")
_ALL = 1 << 62


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} FILE [--format FORMAT] [--resume] [--url URL | --config FILE"
        " | --data-dir DIR] [--since TIME] [--until TIME] [--pipeline NAME] [...]"
    )
    parser.add_argument("file", metavar="FILE", help="file to write; - is standard output")
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        help="form of the file (default: by its name, else jsonl); golden: a golden set for "
        "`ragmon evaluate`, of queries with labels",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with an interrupted export, if there is one"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--limit", type=int, default=_ALL, metavar="N", help="queries at most (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    data_dir_argument(parser)
    remote.arguments(parser, default=None)
    query_flags.arguments(parser, since="")


def run(args: argparse.Namespace, clock: Clock | None = None) -> int:
    """Export; 1 when a damaged part of the store was left out."""
    os.umask(0o077)  # it holds questions and answers of users
    clock = clock or SystemClock()
    if args.limit < 1:
        raise SettingsError("--limit must be at least 1", hint="Omit it for all queries")
    form = args.format or _FORMS.get(Path(args.file).suffix, "jsonl")
    if form == "parquet":
        require_parquet()
    if args.file == "-":
        return _to_standard_output(args, form, clock)
    target = Path(args.file)
    if target.exists() and not args.force:
        raise SettingsError(f"{target} exists", hint="Name another file, or pass --force")
    request = _request(args, form, clock)
    file = ExportFile(target, clock)
    with file.opened(request, resume=args.resume) as out:
        status = _fill(args, out, clock)
        state = out.state
        if form == "parquet":
            parquet.write(file.lines(), file.scratch)
        file.publish(file.scratch if form == "parquet" else None)
    size = target.stat().st_size
    if args.json:
        say_json(WrittenExport(file=str(target), queries=state.queries, size_bytes=size))
    else:
        say(f"{target}: {_content(target, form, state.queries)}, {size:,} bytes")
    return status


def _content(target: Path, form: str, queries: int) -> str:
    read = counted(queries, "query", "queries")
    if form != "golden":
        return read
    with target.open("rb") as file:
        cases = sum(1 for _ in file)
    return f"{counted(cases, 'case')} of {read}, those with labels"


def _fill(args: argparse.Namespace, out: OpenExport, clock: Clock) -> int:
    """Append all pages that are missing."""
    state = out.state
    if state.is_done:
        return 0
    form = "jsonl" if state.form == "parquet" else state.form
    encode = exports.encoder(form, begun=state.size_bytes > 0)
    with _pages(args, state, clock) as (source, damaged), piece_bar() as progress:
        task = progress.add_task("Exporting", total=None)
        cursor, left = state.cursor, args.limit - state.queries
        while True:
            page = source.page(cursor, left)
            left -= len(page.queries)
            cursor = page.cursor if left > 0 else ""
            out.append(encode(page.queries), len(page.queries), cursor)
            if page.matches is not None:
                progress.update(task, total=min(page.matches, args.limit))
            progress.update(task, completed=out.state.queries)
            if not cursor:
                return damaged()


def _to_standard_output(args: argparse.Namespace, form: str, clock: Clock) -> int:
    if form == "parquet" or args.resume:
        raise SettingsError("standard output takes no Parquet, and no --resume", hint="Name a file")
    encode, cursor, left = exports.encoder(form), "", args.limit
    with _pages(args, _request(args, form, clock), clock) as (source, damaged):
        while True:
            page = source.page(cursor, left)
            sys.stdout.buffer.write(encode(page.queries))
            left -= len(page.queries)
            cursor = page.cursor
            if not cursor or left <= 0:
                sys.stdout.buffer.flush()
                return damaged()


def _request(args: argparse.Namespace, form: str, clock: Clock) -> ExportState:
    """The request of a new export, its ages turned into times."""
    asked = {name: value for name, value in query_flags.parameters(args).items() if value or
             name not in ("pipeline", "failing", "since", "until")}  # fmt: skip
    selection = selection_by(asked, clock.now())
    parameters = asked | ({"since": repr(selection.since)} if "since" in asked else {})
    if selection.until is not None:
        parameters["until"] = repr(selection.until)
    asked |= {} if args.limit == _ALL else {"limit": str(args.limit)}
    origin = args.url or _origin(args)
    return ExportState(origin=origin, form=form, asked=asked, parameters=parameters)


def _origin(args: argparse.Namespace) -> str:
    """The store, for the state of an export that may be resumed."""
    take_data_dir(args)
    args.data_dir = None  # once
    settings = flags.settings(args).settings
    if settings.store["kind"] == "sqlite":
        return str(settings.data_dir.absolute())
    return f"{settings.store['kind']}, schema {settings.store.get('schema_name', 'ragmon')}"


@contextlib.contextmanager
def _pages(
    args: argparse.Namespace, state: ExportState, clock: Clock
) -> Iterator[tuple[QueryPageReader, Callable[[], int]]]:
    """The source of pages, and a function that tells what it could not read."""
    if args.url:
        yield DaemonPages(args.url, remote.session(args), state.parameters), lambda: 0
        return
    settings = flags.settings(args).settings
    newest = clock.now() + settings.max_clock_skew
    with open_reader(settings) as reader:
        selection = selection_by(state.parameters, clock.now())
        pages = StorePages(reader, build_pipeline(settings), selection, newest)

        def damaged() -> int:
            rows = reader.damage.rows()
            if rows:
                warn(f"{len(rows):,} damaged rows of the store were left out; run `ragmon verify`")
            return ExitCode.FINDING if rows else ExitCode.OK

        yield pages, damaged
