"""Silence alerts for a while: no notification is sent for those that match every condition.

Conditions are `label=value` or `label=~regular-expression`, over the labels alertname, pipeline,
metric, type, severity, dimension, value and rule. Silenced alerts are still evaluated and shown;
one that is still firing when its silence ends is notified then.
"""

import argparse
from typing import Any
from urllib.parse import quote

from rich import box
from rich.table import Table

from ragmon.api_schema import DeletedSilence, SilenceList, SilenceView
from ragmon.cli import remote
from ragmon.cli.console import say_json
from ragmon.durations import minute_text
from ragmon.errors import SettingsError
from ragmon.evaluate.report.table import standard_output

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
    else:
        standard_output(markup=False).print(text)
    return 0


def _add(args: argparse.Namespace) -> tuple[Any, Any]:
    request = {
        "matchers": [_matcher(condition) for condition in args.what],
        "duration": args.duration,
        "created_by": remote.user(),
        "comment": args.comment,
    }
    silence = remote.post(remote.session(args), args.url, "/v1/silences", SilenceView, request)
    return silence, f"Silenced until {minute_text(silence.ends_at)}: {silence.id}"


def _delete(args: argparse.Namespace) -> tuple[Any, Any]:
    session = remote.session(args)
    deleted = [
        remote.ask(
            session, "DELETE", args.url, f"/v1/silences/{quote(name, safe='')}", DeletedSilence
        )
        for name in args.what
    ]
    return deleted, f"Deleted {', '.join(args.what)}"


def _list(args: argparse.Namespace) -> tuple[Any, Any]:
    silences = remote.get(remote.session(args), args.url, "/v1/silences", SilenceList).silences
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
    return silences, table if silences else "There are no silences."


_ACTIONS = {"add": _add, "list": _list, "delete": _delete}


def _matcher(text: str) -> dict[str, Any]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise SettingsError(
            f"{text!r} is not a condition", hint="Write label=value, or label=~expression"
        )
    regex = value.startswith("~")
    return {"name": name, "value": value.removeprefix("~") if regex else value, "regex": regex}
