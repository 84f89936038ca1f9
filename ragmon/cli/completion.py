"""Print the completion of commands, options and files for bash, zsh or fish.

bash: `ragmon completion bash > ~/.local/share/bash-completion/completions/ragmon`, which the
package bash-completion reads; without it, source the file. zsh: `ragmon completion zsh >
~/.zfunc/_ragmon`, with `fpath+=~/.zfunc` before `compinit` in .zshrc. fish: `ragmon completion fish
> ~/.config/fish/completions/ragmon.fish`. Print it again after an upgrade.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragmon.cli.commands import COMMANDS
from ragmon.cli.console import say
from ragmon.cli.parsing import root_parser

SHELLS = ("bash", "zsh", "fish")
_FOLDERS = ("DIR", "PLACE", "FROM")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("shell", choices=SHELLS, help="shell that is to read it")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    import shtab  # noqa: PLC0415 - only here

    say(shtab.complete(completed_parser(), args.shell), end="")
    return 0


def completed_parser() -> argparse.ArgumentParser:
    """The parser of all commands, with settings as options, and marks on what takes a file."""
    parser = root_parser(COMMANDS)
    for name, subparser in _subparsers(parser):
        if subparser.get_default("takes_settings"):
            _add_settings(subparser)
        for action in subparser._actions:
            _mark(action)
        subparser.description = COMMANDS[name]  # one line; shells show no page
    return parser


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _add_settings(parser: argparse.ArgumentParser) -> None:
    """Every setting as an option, unless the command has one of that name."""
    from ragmon.cli.check_config import reference  # noqa: PLC0415 - takes as long as numpy does

    own = {flag for action in parser._actions for flag in action.option_strings}
    for key, _, meaning in reference():
        flag = "--" + key.replace("_", "-")
        if flag not in own:
            text = meaning.partition(".")[0].replace("%", "%%")
            parser.add_argument(flag, metavar="VALUE", help=text)


def _mark(action: argparse.Action) -> None:
    """Complete files where the argument is a path."""
    import shtab  # noqa: PLC0415 - only here

    marked: Any = action
    if action.metavar in _FOLDERS or action.dest in ("data_dir", "baselines"):
        marked.complete = shtab.DIRECTORY
    elif action.type is Path or action.metavar == "FILE":
        marked.complete = shtab.FILE
