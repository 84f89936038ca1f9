"""Parsers of the commands, by argparse: click takes four times as long to import, typer more."""

# deploy/decisions/0021 has the figures.
import argparse
from collections.abc import Collection

from ragmon import __version__
from ragmon.cli.commands import COMMANDS, command


def root_parser(called: Collection[str]) -> argparse.ArgumentParser:
    """Every command with its line of help.

    Args:
        called: commands whose modules are imported, for their arguments.
    """
    parser = argparse.ArgumentParser(
        prog="ragmon",
        description="Production monitoring for retrieval-augmented generation (RAG).",
        epilog="See `ragmon COMMAND --help` for the options of a command.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"ragmon {__version__}",
        help="print the version and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        if name in called:
            _add(commands, name)
        else:
            commands.add_parser(name, help=text)
    return parser


def _add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str) -> None:
    module = command(name)
    parser = commands.add_parser(
        name,
        help=COMMANDS[name],
        description=module.__doc__,
        allow_abbrev=False,  # `--to` must not be taken for `--token-file`
    )
    module.arguments(parser)
    parser.set_defaults(run=module.run, parser=parser)
