"""Settings as flags: ``--retention.records 3d``, ``--port=9000``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ragmon.config import Loaded, load
from ragmon.errors import SettingsError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Let a command take settings."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="settings in YAML (default ragmon.yaml)"
    )
    parser.set_defaults(takes_settings=True)
    parser.usage = f"{parser.prog} [--config FILE] [--SETTING VALUE ...]"
    parser.epilog = (
        "Every setting is a flag as well, for example --port=9000 --retention.records=3d; "
        "`ragmon check-config` lists them."
    )


def settings(args: argparse.Namespace) -> Loaded:
    """The effective settings of a command.

    Raises:
        SettingsError: a flag or setting is wrong.
    """
    return load(args.config, overrides(args.rest))


def own_words(args: argparse.Namespace) -> list[str]:
    """Remove the words that are not settings from ``args.rest`` and return them.

    argparse does not parse arguments that follow an unknown flag. The value of a setting could be
    mistaken for one, so it must follow an equals sign.

    Raises:
        SettingsError: a flag without one.
    """
    for word in args.rest:
        if word.startswith("--") and "=" not in word:
            raise SettingsError(f"{word} needs a value", hint=f"Write {word}=VALUE")
    words = [word for word in args.rest if not word.startswith("--")]
    args.rest = [word for word in args.rest if word.startswith("--")]
    return words


def overrides(rest: Sequence[str]) -> dict[str, str]:
    """Flags as dotted keys and values.

    Raises:
        SettingsError: a value without a flag, or a flag without a value.
    """
    values: dict[str, str] = {}
    words = list(rest)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            raise SettingsError(
                f"unexpected argument {word!r}",
                hint="Settings are written --SETTING VALUE, for example --data-dir DIR",
            )
        name, equals, value = word[2:].partition("=")
        if not equals:
            if not words:
                raise SettingsError(f"{word} needs a value")
            value = words.pop(0)
        values[name.replace("-", "_")] = value
    return values
