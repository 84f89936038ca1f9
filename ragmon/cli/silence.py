"""Silence alerts for a while: those that match every condition are not heard of.

Conditions are `label=value` or `label=~regular-expression`, over the labels alertname, pipeline,
metric, type, severity, dimension, value and rule. Alerts go on being judged and shown; one that
still fires when its silence ends is heard then.
"""

import argparse
import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from rich import box
from rich.table import Table

from ragmon.cli import remote
from ragmon.errors import SettingsError
from ragmon.evaluate.report.table import standard_output

NAME = "silence"
HELP = "add, list or delete silences of alerts"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    add = parser.add_argument
    add("action", choices=("add", "list", "delete"))
    add("what", nargs="*", metavar="LABEL=VALUE|ID", help="conditions to add, or ids to delete")
    add("--for", dest="duration", default="2h", help="for example 30m, 2h (default), 7d")
    add("--comment", default="", help="why, for whoever wonders")
    add("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Do it, say what came of it."""
    if (args.action == "list") is bool(args.what):
        needs = {"list": "takes nothing more", "delete": "needs an ID"}
        raise SettingsError(
            f"silence {args.action} {needs.get(args.action, 'needs a condition')}",
            hint="For example: ragmon silence add alertname=RagmonHitRate pipeline=docs --for 2h",
        )
    found, text = _ACTIONS[args.action](args)
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        standard_output(markup=False).print(text)
    return 0


def _add(args: argparse.Namespace) -> tuple[Any, Any]:
    body = {
        "matchers": [_matcher(each) for each in args.what],
        "duration": args.duration,
        "created_by": remote.user(),
        "comment": args.comment,
    }
    kept = remote.post(remote.session(args), args.url, "/v1/silences", body)
    return kept, f"Silenced until {_when(kept['ends_at'])}: {kept['id']}"


def _delete(args: argparse.Namespace) -> tuple[Any, Any]:
    opened = remote.session(args)
    deleted = [
        remote.delete(opened, args.url, f"/v1/silences/{quote(name, safe='')}")
        for name in args.what
    ]
    return deleted, f"Deleted {', '.join(args.what)}"


def _list(args: argparse.Namespace) -> tuple[Any, Any]:
    found = remote.get(remote.session(args), args.url, "/v1/silences")["silences"]
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("id", no_wrap=True)  # is copied into `silence delete`
    for name in ("state", "until", "conditions", "by", "comment"):
        table.add_column(name, overflow="fold")
    for each in found:
        conditions = ", ".join(
            f"{one['name']}{'=~' if one.get('regex') else '='}{one['value']}"
            for one in each["matchers"]
        )
        until = _when(each["ends_at"])
        by, comment = each.get("created_by", ""), each.get("comment", "")
        table.add_row(each["id"], each["state"], until, conditions, by, comment)
    return found, table if found else "There are no silences."


_ACTIONS = {"add": _add, "list": _list, "delete": _delete}


def _matcher(text: str) -> dict[str, Any]:
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise SettingsError(
            f"{text!r} is no condition", hint="Write label=value, or label=~expression"
        )
    regex = value.startswith("~")
    return {"name": name, "value": value.removeprefix("~") if regex else value, "regex": regex}


def _when(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
