"""Erase what a running ragmon stored of one user or session, and print the receipt.

Texts, ids, tags and comments are removed from queries, waiting traces, alerts and the quarantine;
counts stay, and hold no personal data. The receipt names the places that ragmon cannot reach, such
as backups.
"""

import argparse
from urllib.parse import quote

from ragmon.cli import remote, window_flags
from ragmon.cli.console import say, say_json
from ragmon.clock import Clock, SystemClock
from ragmon.durations import minute_text
from ragmon.erasure_schema import ErasureReceipt

_LOOK_EVERY_S = 0.5
_KINDS = {
    "records": "queries",
    "changes": "of them with feedback, labels or verdicts",
    "traces": "traces that were not complete",
    "waiting": "feedback and labels that waited for such a trace",
    "alerts": "quotations in alerts and notifications",
    "quarantine": "entries in quarantine",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    subject = parser.add_mutually_exclusive_group(required=True)
    subject.add_argument("--user", metavar="ID", help="user_id of the queries to erase")
    subject.add_argument("--session", metavar="ID", help="session_id of the queries to erase")
    window_flags.pipeline_argument(parser, "only in this pipeline")
    parser.add_argument(
        "--dry-run", action="store_true", help="count what would be erased, and change nothing"
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="print the receipt as it is now, without waiting for the end",
    )
    parser.add_argument("--json", action="store_true", help="print the receipt as JSON")


def run(args: argparse.Namespace, clock: Clock | None = None) -> int:
    """Have it erased and print the receipt."""
    clock = clock or SystemClock()
    session = remote.session(args)
    kind, name = ("user", args.user) if args.user is not None else ("session", args.session)
    asked = {"pipeline": args.pipeline, "dry_run": "true" if args.dry_run else "false"}
    path = f"/v1/{kind}s/{quote(name, safe='')}"
    receipt = remote.ask(session, "DELETE", args.url, path, ErasureReceipt, params=asked)
    while receipt.state != "done" and not args.no_wait:
        clock.sleep(_LOOK_EVERY_S)
        receipt = remote.get(session, args.url, f"/v1/forgotten/{receipt.request}", ErasureReceipt)
    if args.json:
        say_json(receipt)
    else:
        say(_described(receipt, name))
    return 0


def _described(receipt: ErasureReceipt, name: str) -> str:
    of = f"{receipt.subject_kind} {name}"
    where = f" in pipeline {receipt.pipeline}" if receipt.pipeline else ""
    if receipt.state != "done":
        return f"Request {receipt.request} for {of}{where} is {receipt.state}."
    done = "would be erased" if receipt.dry_run else "erased"
    lines = [
        f"{done[0].upper()}{done[1:]} of {of}{where} ({minute_text(receipt.finished_at or 0.0)}):"
    ]
    lines += [f"  {count:,} {_KINDS.get(key, key)}" for key, count in receipt.removed.items()]
    if receipt.remaining:
        lines.append("Out of ragmon's reach:")
        lines += [f"  {each.place}: {each.action}." for each in receipt.remaining]
    if not receipt.dry_run:
        lines.append(f"Receipt {receipt.request}, subject sha256 {receipt.subject_sha256}")
    return "\n".join(lines)
