"""Say that somebody works on an incident, so that reminders stop unless it becomes graver.

The receivers of the incident are told, with the note. `ragmon incidents --json` shows the ids, as
notifications and the pages do. It needs an admin token.
"""

import argparse
from urllib.parse import quote

import msgspec

from ragmon.alerts.as_json import IncidentView
from ragmon.cli import remote
from ragmon.cli.console import say, say_json


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    add = parser.add_argument
    add(
        "action",
        choices=("acknowledge", "unacknowledge"),
        help="say that somebody works on it, or that nobody does any more",
    )
    add("ids", nargs="+", metavar="ID", help="incidents, by the id that notifications show")
    add("--note", default="", help="with acknowledge: shown with the incident")
    add("--by", metavar="NAME", help="with acknowledge: who works on it (default: you)")
    add("--json", action="store_true", help="print JSON instead of lines")


def run(args: argparse.Namespace) -> int:
    """Acknowledge each and print it."""
    acknowledging = args.action == "acknowledge"
    if not acknowledging and (args.note or args.by):
        args.parser.error("--note and --by belong to acknowledge")
    by = remote.user() if args.by is None else args.by
    body = msgspec.json.encode({"note": args.note, "by": by}) if acknowledging else None
    session = remote.session(args)
    incidents = []
    for name in args.ids:
        path = f"/v1/incidents/{quote(name, safe='')}/acknowledge"
        method = "POST" if acknowledging else "DELETE"
        incidents.append(remote.ask(session, method, args.url, path, IncidentView, body=body))
        if not args.json:
            done = "acknowledged" if acknowledging else "not acknowledged any more"
            say(f"{name}: {done}: {incidents[-1].headline}")
    if args.json:
        say_json(incidents)
    return 0
