"""Create a bearer token and print the settings that accept it, or list those of a running daemon.

Only the hash of a token is kept in the settings, so a new one is shown once. `ragmon token list`
shows the tokens of a daemon with their scopes, pipelines, expiry and last use; it needs an admin
token and never shows a secret.

`ragmon token show [NAME]` prints tokens that ragmon made itself (`generate: true` in auth.tokens),
where its data directory is; `rotate NAME` makes a new one beside the old, and `retire NAME` ends
the old one.
"""

import argparse
import hashlib
import json
import secrets
from pathlib import Path

from rich import box
from rich.table import Table

from ragmon.cli import remote
from ragmon.cli.console import say, say_json
from ragmon.cli.rich_output import standard_output
from ragmon.durations import minute_text
from ragmon.errors import SettingsError
from ragmon.token_schema import TokenList, TokenView

_SCOPES = ("ingest", "read", "admin")
_FILE_ACTIONS = ("show", "rotate", "retire")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    add = parser.add_argument
    add(
        "name",
        metavar="NAME|list|show|rotate|retire",
        help="name of the user or application, shown in errors, metrics and the audit log; "
        "or `list` to list the tokens of a running daemon, or what to do with one that it made",
    )
    add("token_name", nargs="?", default="", metavar="NAME", help="token to show, rotate or retire")
    add("--config", type=Path, metavar="FILE", help="with these: settings (default ragmon.yaml)")
    add(
        "--scope",
        action="append",
        choices=_SCOPES,
        help="permission of the token; may be repeated (default ingest)",
    )
    add("--expires", default="", metavar="TIME", help="time from which it is refused: 2027-06-30")
    add(
        "--pipeline",
        action="append",
        metavar="NAME",
        help="pipeline it may write and read, such as docs-*; may be repeated (default all)",
    )
    add("--json", action="store_true", help="print JSON instead of lines or a table")


def run(args: argparse.Namespace) -> int:
    """Print the token and its settings, or the tokens that there are."""
    if args.name in _FILE_ACTIONS:
        from ragmon.cli import token_files  # noqa: PLC0415 - reads the settings, which takes a second

        return token_files.run_action(args)
    if args.token_name:
        raise SettingsError(
            f"unexpected argument {args.token_name!r}", hint="See `ragmon token --help`"
        )
    if args.name == "list":
        _print(remote.get(remote.session(args), args.url, "/v1/tokens", TokenList), args)
        return 0
    _check_expiry(args.expires)
    token = "rgm_" + secrets.token_urlsafe(32)
    sha256 = hashlib.sha256(token.encode()).hexdigest()
    if args.json:
        _say_new(token, sha256, args)
        return 0
    scopes = ", ".join(args.scope or ["ingest"])
    say(f"Token (shown only once): {token}\n")
    say("ragmon.yaml:\n\nauth:\n  tokens:")
    say(f"    - name: {args.name}\n      scopes: [{scopes}]")
    if args.pipeline:
        say(f"      pipelines: {json.dumps(args.pipeline)}")
    if args.expires:
        say(f"      expires: {args.expires}")
    say(f"      sha256: {sha256}")
    return 0


def _check_expiry(text: str) -> None:
    if text:
        from ragmon.config.units import moment  # noqa: PLC0415 - see above

        try:
            moment(text)
        except ValueError as error:
            raise SettingsError(f"--expires: {error}") from None


def _say_new(token: str, sha256: str, args: argparse.Namespace) -> None:
    from ragmon.cli.results import NewToken  # noqa: PLC0415 - imports numpy

    entry: dict[str, str | list[str]] = {"name": args.name, "scopes": args.scope or ["ingest"]}
    if args.pipeline:
        entry["pipelines"] = args.pipeline
    if args.expires:
        entry["expires"] = args.expires
    say_json(NewToken(token=token, entry=entry | {"sha256": sha256}))


def _print(listed: TokenList, args: argparse.Namespace) -> None:
    if args.json:
        say_json(listed)
        return
    if not listed.tokens:
        say("No tokens are configured: everybody who reaches ragmon may do everything.")
        return
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("name", no_wrap=True)
    for name in ("scopes", "pipelines", "rate", "expires", "last used"):
        table.add_column(name, overflow="fold")
    for token in listed.tokens:
        table.add_row(
            token.name,
            ", ".join(token.scopes),
            ", ".join(token.pipelines) or "all",
            _rate(token),
            _when(token.expires),
            _when(token.last_used),
        )
    standard_output(markup=False).print(table)


def _rate(token: TokenView) -> str:
    rates = {"requests": token.requests_per_second, "records": token.records_per_second}
    limits = [f"{rate:g} {name}/s" for name, rate in rates.items() if rate is not None]
    return ", ".join(limits) or "any"


def _when(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    return minute_text(seconds)
