"""Save and choose the baselines that live traffic and golden runs are compared with.

A baseline of traffic (`--from`): the `regression` detector compares traffic with it once promoted.
A baseline of a golden run (`--run`): `ragmon gate --baseline NAME` compares runs with it. Every
`set` saves another version.
"""

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from rich import box
from rich.table import Table

from ragmon.cli import baseline_access, flags
from ragmon.cli.baseline_access import BaselineAccess
from ragmon.cli.console import say_json
from ragmon.cli.rich_output import standard_output
from ragmon.counts import counted
from ragmon.errors import SettingsError
from ragmon.evaluate.score.metric_text import value_text
from ragmon.percentages import percent_text
from ragmon.stores.protocols import BaselineRow


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = f"{parser.prog} {{set,list,show,promote,delete}} [NAME] [--SETTING=VALUE ...]"
    baseline_access.arguments(parser)
    add = parser.add_argument
    add(
        "action",
        choices=("set", "list", "show", "promote", "delete"),
        help="set saves another version, promote makes a version the one to compare with",
    )
    add("name", nargs="?", default="", metavar="NAME", help="name of the baseline; none for list")
    add(
        "--from",
        dest="window",
        metavar="DURATION",
        default="",
        help="save the traffic of this long (default 7d)",
    )
    add(
        "--run",
        dest="golden",
        type=Path,
        metavar="FILE",
        help="save an evaluation, the output of `ragmon evaluate --json`",
    )
    add("--promote", action="store_true", help="with set: compare with it from now on")
    add(
        "--version",
        type=int,
        metavar="N",
        help="this version instead of the promoted or newest one",
    )
    add("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Do the action and print the outcome."""
    words = [word for word in (args.name, *flags.own_words(args)) if word]
    args.name = words[0] if words else ""
    if len(words) > 1:
        raise SettingsError(f"unexpected argument {words[1]!r}")
    if (args.action == "list") is bool(args.name):
        problem = "takes no NAME" if args.name else "needs a NAME"
        raise SettingsError(f"baseline {args.action} {problem}")
    if args.window and args.golden:
        raise SettingsError("give --from or --run, not both")
    with baseline_access.opened(args, flags.settings(args).settings) as baselines:
        content, text = _ACTIONS[args.action](args, baselines)
    if args.json:
        plain = json.loads(msgspec.json.encode(content))
        say_json(plain)
    else:
        standard_output(markup=False).print(text)
    return 0


def _set(args: argparse.Namespace, baselines: BaselineAccess) -> tuple[Any, str]:
    if args.golden:
        row = baselines.keep(args.name, run=baseline_access.read_run(args.golden))
    else:
        row = baselines.keep(args.name, window=args.window or "7d")
    saved = f"Saved {_title(row)}: {row.provenance}, {_samples(row)}."
    if args.promote:
        return _promote(args, baselines, row.version, saved + " ")
    return row, f"{saved}\nTo compare with it: ragmon baseline promote {args.name}"


def _promote(
    args: argparse.Namespace,
    baselines: BaselineAccess,
    version: int | None = None,
    saved: str = "",
) -> tuple[Any, str]:
    row = baselines.promote(args.name, args.version if version is None else version)
    what = "Live traffic is" if row.kind == "traffic" else f"`gate --baseline {args.name}` is"
    return row, f"{saved}{what} compared with {_title(row)} from now on."


def _delete(args: argparse.Namespace, baselines: BaselineAccess) -> tuple[Any, str]:
    count = baselines.delete(args.name, args.version)
    return {"deleted": count}, f"Deleted {count} version{'s' if count != 1 else ''}."


def _list(_: argparse.Namespace, baselines: BaselineAccess) -> tuple[Any, Any]:
    listed = baselines.listed()
    if not listed.baselines:
        return listed, "No baselines are saved; `ragmon baseline set NAME` saves one."
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("name", "version", "of", "saved (UTC)", "by", "from", ""):
        table.add_column(name, overflow="fold")
    table.add_column("samples", justify="right")
    for row in listed.baselines:
        moment = datetime.fromtimestamp(row.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        state = "promoted" if row.promoted else ""
        cells = (row.kind, moment, row.created_by, row.provenance, state)
        table.add_row(row.name, str(row.version), *cells, f"{row.samples:,.0f}")
    return listed, table


def _show(args: argparse.Namespace, baselines: BaselineAccess) -> tuple[Any, Any]:
    detail = baselines.shown(args.name, args.version)
    table = Table(title=f"{_title(detail)}: {detail.provenance}", title_justify="left")
    table.box = box.SIMPLE_HEAD
    for name in ("of", "metric"):
        table.add_column(name)
    for name in ("value", "samples"):
        table.add_column(name, justify="right")
    if detail.run is not UNSET:
        for metric in json.loads(bytes(detail.run))["metrics"]:
            value = value_text(metric["name"], metric["mean"])
            table.add_row("", metric["name"], value, f"{metric['samples']:,}")
    for level in detail.levels or ():
        of = f"{level.pipeline} {level.dimension} {level.value}".rstrip()
        table.add_row(of, level.what, percent_text(level.level, 2), f"{level.n:,.0f}")
    return detail, table


_ACTIONS: dict[str, Callable[[argparse.Namespace, BaselineAccess], tuple[Any, Any]]] = {
    "set": _set,
    "list": _list,
    "show": _show,
    "promote": _promote,
    "delete": _delete,
}


def _title(row: BaselineRow) -> str:
    return f"{row.name} version {row.version}"


def _samples(row: BaselineRow) -> str:
    return counted(row.samples, *(("query", "queries") if row.kind == "traffic" else ("case",)))
