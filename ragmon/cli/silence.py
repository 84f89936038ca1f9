"""Silence alerts for a while: no notification is sent for those that match every condition.

Conditions are `label=value` or `label=~regular-expression`, over the labels alertname, pipeline,
metric, type, severity, dimension, value and rule. Silenced alerts are still evaluated and shown;
one that is still firing when its silence ends is notified then.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from ragmon.cli import remote
from ragmon.cli.console import say, say_json
from ragmon.durations import minute_text
from ragmon.errors import SettingsError
from ragmon.silence_schema import DeletedSilence, SilenceList, SilenceView

_HINTS = {
    "add": "For example: ragmon silence add alertname=RagmonHitRate pipeline=docs --for 2h",
    "list": "`ragmon silence list` shows all of them",
    "delete": "`ragmon silence list` shows the ids",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    add = parser.add_argument
    add(
        "action",
        choices=("add", "list", "delete"),
        help="add a silence, list those in force, or delete some",
    )
    add(
        "what",
        nargs="*",
        metavar="LABEL=VALUE|ID",
        help="conditions of the silence to add, or ids of silences to delete",
    )
    add("--for", dest="duration", default="2h", help="length of the silence: 30m, 2h (default), 7d")
    add("--comment", default="", help="reason, shown with the silence")
    add("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Run the action and print its result."""
    if (args.action == "list") is bool(args.what):
        needs = {"list": "takes no arguments", "delete": "needs an ID"}
        raise SettingsError(
            f"silence {args.action} {needs.get(args.action, 'needs a condition')}",
            hint=_HINTS[args.action],
        )
    content, text = _ACTIONS[args.action](args)
    if args.json:
        say_json(content)
    elif isinstance(content, list) and content and args.action == "list":
        _print(content)
    else:
        say(text)
    return 0


def _add(args: argparse.Namespace) -> tuple[SilenceView, str]:
    request = {
        "matchers": [_matcher(condition) for condition in args.what],
        "duration": args.duration,
        "created_by": remote.user(),
        "comment": args.comment,
    }
    silence = remote.post(remote.session(args), args.url, "/v1/silences", SilenceView, request)
    return silence, f"Silenced until {minute_text(silence.ends_at)}: {silence.id}"


def _delete(args: argparse.Namespace) -> tuple[list[DeletedSilence], str]:
    session = remote.session(args)
    deleted = [
        remote.ask(
            session, "DELETE", args.url, f"/v1/silences/{quote(name, safe='')}", DeletedSilence
        )
        for name in args.what
    ]
    return deleted, f"Deleted {', '.join(args.what)}"


def _list(args: argparse.Namespace) -> tuple[list[SilenceView], str]:
    silences = remote.get(remote.session(args), args.url, "/v1/silences", SilenceList).silences
    return silences, "There are no silences."


def _print(silences: Sequence[SilenceView]) -> None:
    from rich import box  # noqa: PLC0415 - only where there is a table to print
    from rich.table import Table  # noqa: PLC0415

    from ragmon.cli.rich_output import standard_output  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("id", no_wrap=True)  # is copied into `silence delete`
    for name in ("state", "until", "conditions", "by", "comment"):
        table.add_column(name, overflow="fold")
    for silence in silences:
        conditions = ", ".join(
            f"{matcher.name}{'=~' if matcher.regex else '='}{matcher.value}"
            for matcher in silence.matchers
        )
        until = minute_text(silence.ends_at)
        by, comment = silence.created_by, silence.comment
        table.add_row(silence.id, silence.state, until, conditions, by, comment)
    standard_output(markup=False).print(table)


_ACTIONS: dict[str, Callable[[argparse.Namespace], tuple[Any, str]]] = {
    "add": _add,
    "list": _list,
    "delete": _delete,
}


def _matcher(text: str) -> dict[str, Any]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise SettingsError(
            f"{text!r} is not a condition", hint="Write label=value, or label=~expression"
        )
    regex = value.startswith("~")
    return {"name": name, "value": value.removeprefix("~") if regex else value, "regex": regex}
