"""The commands, one file each: ``NAME``, ``HELP``, ``arguments(parser)``, ``run(args) -> int``."""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType

from ragmon.cli.console import complain
from ragmon.errors import RagmonError

OK, FAILED = 0, 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="ragmon",
        description="Production monitoring for retrieval-augmented generation (RAG).",
        epilog="See `ragmon COMMAND --help` for the options of a command.",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _commands():
        sub = commands.add_parser(
            command.NAME,
            help=command.HELP,
            description=command.__doc__,
            allow_abbrev=False,  # `--to` must not be taken for `--token-file`
        )
        command.arguments(sub)
        sub.set_defaults(run=command.run, parser=sub)
    args, rest = parser.parse_known_args(argv)
    if rest and not getattr(args, "takes_settings", False):
        args.parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    try:
        status: int = args.run(args)
    except RagmonError as error:
        complain(error)
        return FAILED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return OK
    return status


def _commands() -> list[ModuleType]:
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return [module for module in modules if hasattr(module, "NAME")]
