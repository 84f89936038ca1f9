"""List, show, retry or delete what could not be decoded, mapped, judged or sent.

Such an entry costs only itself: everything else goes on. It is missing from all metrics until a
retry succeeds, and deleted after a week (`quarantine.keep`). Notifications that were given up are
listed, too, as send-NUMBER.
"""

import argparse
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from msgspec import to_builtins
from rich import box
from rich.table import Table

from ragmon.cli import remote
from ragmon.cli.connection import Connection
from ragmon.cli.console import say_json
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.rich_output import standard_output
from ragmon.clock import SystemClock
from ragmon.durations import minute_text
from ragmon.errors import RemoteError, SettingsError
from ragmon.quarantine_schema import (
    DeletedEntry,
    QuarantineDetail,
    QuarantineEntry,
    QuarantineList,
    RetriedEntry,
)
from ragmon.stores.quarantine import STAGES

_PATH = "/v1/quarantine"
_MOST = 1_000
_ASK_EVERY_S = 1.0
_WAIT_S = 300.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    add = parser.add_argument
    add(
        "action",
        choices=("list", "show", "retry", "delete"),
        help="list the newest, show one with its content, try some again, or delete some",
    )
    add("ids", nargs="*", metavar="ID", help="entries, as list shows them: 7 or send-7")
    add("--all", action="store_true", help="with retry or delete: every entry (of --stage)")
    add("--stage", choices=STAGES, default="", help="only entries of this stage")
    add("--limit", type=int, default=50, metavar="N", help="with list: entries at most")
    add(
        "--wait",
        type=float,
        default=_WAIT_S,
        metavar="SECONDS",
        help="with retry: time for answers to be judged; ragmon goes on after it (default: 300)",
    )
    add("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Run the action and print its result."""
    if args.action == "list":
        _refuse(bool(args.ids), "list takes no ID")
    elif args.action == "show":
        _refuse(len(args.ids) != 1, "show needs one ID")
    else:
        _refuse(bool(args.ids) is args.all, f"{args.action} needs IDs, or --all")
    content, text, status = _ACTIONS[args.action](args)
    if args.json:
        say_json(to_builtins(content))
    else:
        standard_output(markup=False).print(text)
    return status


def _refuse(is_wrong: bool, message: str) -> None:
    if is_wrong:
        raise SettingsError(f"quarantine {message}", hint="`ragmon quarantine list` shows the ids")


def _list(args: argparse.Namespace) -> tuple[Any, Any, int]:
    listed = _listed(args, args.limit)
    if not listed.entries:
        return listed, "Nothing is in quarantine.", 0
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("id", no_wrap=True)
    for name in ("stage", "reason", "since", "of", "error"):
        table.add_column(name, overflow="fold")
    table.add_column("tries", justify="right")
    for entry in listed.entries:
        table.add_row(*_cells(entry))
    return listed, table, 0


def _cells(entry: QuarantineEntry) -> tuple[str, ...]:
    moment = minute_text(entry.at)
    error = entry.error if len(entry.error) <= 200 else f"{entry.error[:200]}…"
    tries = f"{entry.attempts}, one under way" if entry.under_way else str(entry.attempts)
    return entry.id, entry.stage, entry.reason, moment, entry.name, error, tries


def _show(args: argparse.Namespace) -> tuple[Any, Any, int]:
    detail = remote.get(
        remote.session(args), args.url, f"{_PATH}/{quote(args.ids[0], safe='')}", QuarantineDetail
    )
    _, stage, reason, moment, name, _, attempts = _cells(detail)
    lines = [
        f"{detail.id}: {stage}, {reason}, {name}, since {moment}, retried {attempts} times",
        detail.error,
        detail.note,
        "" if detail.content is None else json.dumps(detail.content, indent=2, ensure_ascii=False),
    ]
    return detail, "\n".join(filter(None, lines)), 0


def _retry(args: argparse.Namespace) -> tuple[Any, Any, int]:
    session = remote.session(args)
    retried = [
        remote.ask(session, "POST", args.url, f"{_PATH}/{quote(name, safe='')}/retry", RetriedEntry)
        for name in _ids(args)
    ]
    outcomes = _outcomes(session, args, retried)
    lines = [f"{entry.id}: {_state_of(entry)}: {entry.detail}" for entry in outcomes]
    done = all(entry.done for entry in outcomes)
    status = ExitCode.OK if done else ExitCode.FINDING
    return outcomes, "\n".join(lines) or "Nothing is in quarantine.", status


def _state_of(entry: RetriedEntry) -> str:
    if entry.under_way:
        return "under way"
    return "done" if entry.done else "failed again"


def _outcomes(
    session: Connection, args: argparse.Namespace, retried: list[RetriedEntry]
) -> list[RetriedEntry]:
    """The same entries, those that were under way with their outcome if it comes in time."""
    clock = SystemClock()
    until = clock.monotonic() + args.wait
    outcomes = []
    for entry in retried:
        outcome = entry
        while outcome.under_way and clock.monotonic() < until:
            clock.sleep(_ASK_EVERY_S)
            outcome = _outcome_of(session, args, entry)
        outcomes.append(outcome)
    return outcomes


def _outcome_of(session: Connection, args: argparse.Namespace, entry: RetriedEntry) -> RetriedEntry:
    path = f"{_PATH}/{quote(entry.id, safe='')}"
    try:
        now = remote.get(session, args.url, path, QuarantineDetail)
    except RemoteError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return RetriedEntry(id=entry.id, done=True, detail="judged")
    return entry if now.under_way else RetriedEntry(id=entry.id, done=False, detail=now.error)


def _delete(args: argparse.Namespace) -> tuple[Any, Any, int]:
    session = remote.session(args)
    deleted = [
        remote.ask(session, "DELETE", args.url, f"{_PATH}/{quote(name, safe='')}", DeletedEntry)
        for name in _ids(args)
    ]
    names = ", ".join(entry.deleted for entry in deleted)
    return deleted, f"Deleted {names}." if names else "Nothing is in quarantine.", 0


def _ids(args: argparse.Namespace) -> list[str]:
    if args.ids:
        return list(args.ids)
    return [entry.id for entry in _listed(args, _MOST).entries]


def _listed(args: argparse.Namespace, limit: int) -> QuarantineList:
    return remote.get(
        remote.session(args),
        args.url,
        _PATH,
        QuarantineList,
        stage=args.stage,
        limit=str(limit),
    )


_ACTIONS: dict[str, Callable[[argparse.Namespace], tuple[Any, Any, int]]] = {
    "list": _list,
    "show": _show,
    "retry": _retry,
    "delete": _delete,
}
