"""Copy a store with everything that it holds into another; no ragmon may run on either.

FROM and TO are a data directory, a connection string of PostgreSQL, or a file that holds one (as
store.dsn_file). Queries, feedback, labels, verdicts, windows, detectors, alerts, notifications,
silences and baselines are copied as they are, and every row of both is compared at the end. A copy
that was stopped goes on where it was when the command is run again.
"""

import argparse
import os
from contextlib import closing
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ragmon.cli.console import say, say_json
from ragmon.cli.progress import piece_bar
from ragmon.cli.results import StoreCopied
from ragmon.errors import SettingsError
from ragmon.stores import postgresql, sqlite
from ragmon.stores.copying import StoreCopy, check_complete
from ragmon.stores.ports import Store
from ragmon.stores.sqlite.store import FILE

_STATEMENT_S = 3_600.0  # a table is cleared, and its bytes are summed, in one


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", metavar="FROM", help="directory, connection string, or its file")
    parser.add_argument("--to", required=True, metavar="TO", help="likewise; empty, or not there")
    parser.add_argument("--schema", default="ragmon", help="schema in PostgreSQL (default: ragmon)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Copy it."""
    os.umask(0o077)  # it holds questions and answers of users
    source_place = _place(args.source, args.schema)
    target_place = _place(args.to, args.schema)
    if isinstance(source_place, Path) and not (source_place / FILE).exists():
        raise SettingsError(f"{source_place / FILE} does not exist", hint="Name a data_dir")
    with closing(_opened(source_place)) as source:
        check_complete(source.tables())
        with closing(_opened(target_place)) as target:
            rows = _copied(source, target, _described(source_place), quiet=args.quiet)
    if args.json:
        say_json(StoreCopied(tables=rows))
        return 0
    for table, count in rows.items():
        if count:
            say(f"{table}: {count:,}")
    say("Every row is the same in both. Set `store` to the new one before ragmon starts again.")
    return 0


def _copied(source: Store, target: Store, name: str, *, quiet: bool) -> dict[str, int]:
    with piece_bar(quiet=quiet) as progress:
        task = progress.add_task("")
        return StoreCopy(
            source.tables(),
            target.tables(),
            name,
            lambda table, done, total: progress.update(
                task, description=table, completed=done, total=max(1, total)
            ),
        ).run()


def _place(text: str, schema: str) -> Path | postgresql.Options:
    """A data directory, or the options of a store in PostgreSQL."""
    common = {"schema_name": schema, "statement_timeout_s": _STATEMENT_S}
    try:
        if "://" in text or "=" in text:
            return postgresql.Options.model_validate({"dsn": text, **common})
        if Path(text).is_file():
            return postgresql.Options.model_validate({"dsn_file": text, **common})
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(f"--{first['loc'][-1]}: {first['msg']}") from None
    return Path(text)


def _opened(place: Path | postgresql.Options) -> Store:
    store: Any = (
        sqlite.build(sqlite.Options(), place)
        if isinstance(place, Path)
        else postgresql.build(place, Path(), waits=False)
    )
    opened: Store = store
    return opened


def _described(place: Path | postgresql.Options) -> str:
    return str(place) if isinstance(place, Path) else f"schema {place.schema_name} of PostgreSQL"
