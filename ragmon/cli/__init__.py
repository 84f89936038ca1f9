"""The commands, one file each: ``arguments(parser)``, ``run(args) -> int``; see ``commands``."""

import argparse
import sys
from collections.abc import Sequence

from ragmon.cli.commands import COMMANDS
from ragmon.cli.console import complain
from ragmon.cli.exit_codes import ExitCode, code_of
from ragmon.cli.parsing import root_parser
from ragmon.errors import RagmonError

_ALIKE = 0.65  # from which an option may be meant: all begin with two dashes


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(words)
    if not words:
        parser.print_help()
        return ExitCode.OK
    args, rest = parser.parse_known_args(words)
    if rest and not getattr(args, "takes_settings", False):
        args.parser.error(_unknown(args.parser, rest))
    args.rest = rest
    return _run(args)


def _run(args: argparse.Namespace) -> int:
    try:
        status: int = args.run(args)
    except RagmonError as error:
        complain(error)
        return code_of(error)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.OK
    except Exception:  # noqa: BLE001 - Python's own status, 1, would read as a finding
        import traceback  # noqa: PLC0415 - only here

        traceback.print_exc()
        return ExitCode.DEFECT
    return status


def _unknown(parser: argparse.ArgumentParser, rest: Sequence[str]) -> str:
    """Message about arguments that a command does not take, with the nearest that it takes."""
    from ragmon.plugins import nearest  # noqa: PLC0415 - only where an option is wrong

    names = [name for action in parser._actions for name in action.option_strings]
    flags = (word.partition("=")[0] for word in rest if word.startswith("-"))
    near = (nearest(flag, names, cutoff=_ALIKE) for flag in flags)
    remedies = [f"did you mean `{name}`?" for name in near if name]
    return "; ".join([f"unrecognized arguments: {' '.join(rest)}", *remedies])


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """All commands with their line of help, and the arguments of the one that is called."""
    called = next((word for word in words if not word.startswith("-")), "")
    parser = root_parser({called} & COMMANDS.keys())
    if called and called not in COMMANDS:
        parser.error(f"there is no command {called!r}; {_remedy(called)}")
    return parser


def _remedy(name: str) -> str:
    from ragmon.plugins import remedy  # noqa: PLC0415 - only where a name is wrong

    return remedy(name, list(COMMANDS))
