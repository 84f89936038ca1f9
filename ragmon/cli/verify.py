"""Check a store: its structure, every checksum and record, its id index and its windows.

It runs beside the daemon or on a store at rest, and changes nothing. Exit status 1: damaged.
"""

import argparse
from pathlib import Path

import msgspec

from ragmon.cli import flags
from ragmon.cli.backup_place import require_embedded
from ragmon.cli.console import say, say_json
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.progress import piece_bar
from ragmon.counts import counted
from ragmon.errors import SettingsError
from ragmon.stores.sqlite.store import FILE
from ragmon.stores.sqlite.verification import Verification, verify


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} [--json] [--quiet] [--file FILE] [--config FILE] [--data-dir DIR]"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="store to check (default: that of data_dir)"
    )


def run(args: argparse.Namespace) -> int:
    """Check it and print what is wrong."""
    path = args.file
    if path is None:
        settings = flags.settings(args).settings
        require_embedded(settings, "verify")
        path = settings.data_dir / FILE
    if not path.is_file():
        hint = (
            "Name a store, or a backup that is unpacked"
            if args.file
            else "Set data_dir to that of the daemon"
        )
        raise SettingsError(f"{path} does not exist", hint=hint)
    result = _verify(path, quiet=args.quiet)
    if args.json:
        content = msgspec.to_builtins(result) | {"sound": result.sound}
        say_json(content)
    else:
        _print(result)
    return ExitCode.OK if result.sound else ExitCode.FINDING


def _verify(path: Path, *, quiet: bool) -> Verification:
    with piece_bar(quiet=quiet) as progress:
        task = progress.add_task("")
        return verify(
            path,
            lambda stage, done, total: progress.update(
                task, description=stage, completed=done, total=max(1, total)
            ),
        )


def _print(result: Verification) -> None:
    for finding in result.findings:
        say(f"{finding.what} {finding.row}: {finding.problem}. {finding.remedy}.")
    if result.more_findings:
        say(f"and {result.more_findings:,} more")
    say(
        f"{result.store}: format {result.format}, {counted(result.blocks, 'block')},"
        f" {counted(result.records, 'query', 'queries')},"
        f" {counted(result.indexed, 'id')} in the index on disk"
    )
    if result.without_checksum:
        say(f"{counted(result.without_checksum, 'row')} of an older format without a checksum")
    say("sound" if result.sound else "damaged")
