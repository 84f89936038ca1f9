"""Tokens that the daemon made itself: shown, rotated and retired, in its data directory."""

import argparse
from collections.abc import Callable

from ragmon.cli.console import say, say_json, warn
from ragmon.cli.results import RetiredTokens, RotatedToken
from ragmon.config import load
from ragmon.daemon.generated_tokens import GeneratedTokens
from ragmon.errors import SettingsError


def run_action(args: argparse.Namespace) -> int:
    """Run `show`, `rotate` or `retire`."""
    ACTIONS[args.name](GeneratedTokens(load(args.config).settings.data_dir), args)
    return 0


def _show(tokens: GeneratedTokens, args: argparse.Namespace) -> None:
    """The newest secret of one token alone, so that a script can use it; or all of them."""
    if args.token_name:
        secret = tokens.secrets(args.token_name)[0]
        if args.json:
            say_json({args.token_name: secret})
        else:
            say(secret)
        return
    names = tokens.names()
    if not names:
        raise SettingsError(
            f"ragmon has made no tokens in {tokens.path('')}",
            hint="It makes those of auth.tokens that say `generate: true`, at its start",
        )
    newest = {name: tokens.secrets(name)[0] for name in names}
    if args.json:
        say_json(newest)
        return
    width = max(map(len, names))
    for name, secret in newest.items():
        say(f"{name:<{width}}  {secret}")


def _rotate(tokens: GeneratedTokens, args: argparse.Namespace) -> None:
    name = _named(args)
    token = tokens.rotate(name)
    if args.json:
        say_json(RotatedToken(name=name, token=token))
    else:
        say(token)
    warn(
        "Both tokens work, the new one within five seconds. Give it to its users, then: "
        f"ragmon token retire {args.token_name}"
    )


def _retire(tokens: GeneratedTokens, args: argparse.Namespace) -> None:
    ended = tokens.retire(_named(args))
    if args.json:
        say_json(RetiredTokens(name=args.token_name, ended=ended))
        return
    say(f"{ended} old token{'' if ended == 1 else 's'} of {args.token_name} ended")


def _named(args: argparse.Namespace) -> str:
    name: str = args.token_name
    if not name:
        raise SettingsError(
            f"token {args.name} needs the name of a token", hint="`ragmon token show` lists them"
        )
    return name


ACTIONS: dict[str, Callable[[GeneratedTokens, argparse.Namespace], None]] = {
    "show": _show,
    "rotate": _rotate,
    "retire": _retire,
}
