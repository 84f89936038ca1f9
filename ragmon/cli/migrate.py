"""Bring the store to the format of this ragmon, as a start does, or say whether that is needed.

A store that is not there is made. The embedded store is copied before it is changed; a database
has backups of its own. Exit status 1 with --check: the format is older, and would be changed.
"""

import argparse

from ragmon.cli import flags
from ragmon.cli.console import say, say_json
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.progress import StageBar
from ragmon.cli.results import StoreMigration
from ragmon.plugins import resolve
from ragmon.stores import COPYING, Migration, StoreFormat


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} [--check] [--json] [--quiet] [--config FILE] [--SETTING VALUE ...]"
    )
    parser.add_argument("--check", action="store_true", help="change nothing")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def run(args: argparse.Namespace) -> int:
    """Migrate, or tell."""
    settings = flags.settings(args).settings
    module, options = resolve("ragmon.stores", "store", settings.store)
    before: StoreFormat | None = module.inspect(options, settings.data_dir)
    is_due = before is None or before.version < before.current
    done: Migration | None = None
    after = before
    if is_due and not args.check:
        with StageBar([COPYING], quiet=args.quiet) as bar:
            done = module.migrate(options, settings.data_dir, bar.show)
        after = module.inspect(options, settings.data_dir)
    result = StoreMigration(
        before=None if before is None else before.version,
        format=None if after is None else after.version,
        current=None if after is None else after.current,
        backup=None if done is None or done.backup is None else str(done.backup),
    )
    if args.json:
        say_json(result)
    else:
        say(_sentence(result))
    return ExitCode.FINDING if args.check and is_due else ExitCode.OK


def _sentence(result: StoreMigration) -> str:
    if result.format is None:
        return "There is no store yet; `ragmon migrate`, or a start, makes it."
    if result.before is None:
        return f"The store was made, in format {result.format}."
    if result.format != result.before:
        copy = f"; as it was, it is now {result.backup}" if result.backup else ""
        return f"The store was brought from format {result.before} to {result.format}{copy}."
    if result.current is not None and result.before < result.current:
        return (
            f"The store has format {result.before}; `ragmon migrate`, or a start, brings it to"
            f" {result.current}."
        )
    return f"The store has format {result.before}, as this ragmon needs it."
