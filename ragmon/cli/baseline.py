"""Save what is normal, and say what live traffic and golden runs are compared with.

A baseline of traffic (`--from`) is what the daemon's `regression` detector compares with once it
is promoted. A baseline of a golden run (`--run`) is what `ragmon gate --baseline NAME` compares
with. Every `set` keeps another version.
"""

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich import box
from rich.table import Table

from ragmon.cli import baseline_access, flags
from ragmon.cli.baseline_access import BaselineAccess
from ragmon.errors import SettingsError
from ragmon.evaluate.report.table import standard_output

NAME = "baseline"
HELP = "set, list, show, promote or delete saved baselines"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = f"{parser.prog} {{set,list,show,promote,delete}} [NAME] [--SETTING=VALUE ...]"
    baseline_access.arguments(parser)
    add = parser.add_argument
    add("action", choices=("set", "list", "show", "promote", "delete"))
    add("name", nargs="?", default="", metavar="NAME")
    add("--from", dest="window", metavar="DURATION", default="", help="of traffic (default 7d)")
    add("--run", dest="golden", type=Path, metavar="FILE", help="what `evaluate --json` wrote")
    add("--promote", action="store_true", help="with set: compare with it at once")
    add("--version", type=int, metavar="N", help="not the promoted or newest one")
    add("--json", action="store_true", help="print JSON instead of tables")


def run(args: argparse.Namespace) -> int:
    """Do it, say what came of it."""
    words = [word for word in (args.name, *flags.own_words(args)) if word]
    args.name = words[0] if words else ""
    if len(words) > 1:
        raise SettingsError(f"unexpected argument {words[1]!r}")
    if (args.action == "list") is bool(args.name):
        problem = "takes no NAME" if args.name else "needs a NAME"
        raise SettingsError(f"baseline {args.action} {problem}")
    if args.window and args.golden:
        raise SettingsError("give --from or --run, not both")
    with baseline_access.opened(args, flags.settings(args).settings) as held:
        found, text = _ACTIONS[args.action](args, held)
    if args.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        standard_output(markup=False).print(text)
    return 0


def _set(args: argparse.Namespace, held: BaselineAccess) -> tuple[Any, str]:
    if args.golden:
        row = held.keep(args.name, run=baseline_access.read_run(args.golden))
    else:
        row = held.keep(args.name, window=args.window or "7d")
    said = f"Saved {_title(row)}: {row['provenance']}, {_samples(row)}."
    if args.promote:
        return _promote(args, held, row["version"], said + " ")
    return row, f"{said}\nIt is compared with after: ragmon baseline promote {args.name}"


def _promote(
    args: argparse.Namespace, held: BaselineAccess, version: int | None = None, said: str = ""
) -> tuple[Any, str]:
    row = held.promote(args.name, args.version if version is None else version)
    what = "Live traffic is" if row["kind"] == "traffic" else f"`gate --baseline {args.name}` is"
    return row, f"{said}{what} compared with {_title(row)} from now on."


def _delete(args: argparse.Namespace, held: BaselineAccess) -> tuple[Any, str]:
    count = held.delete(args.name, args.version)
    return {"deleted": count}, f"Deleted {count} version{'s' if count != 1 else ''}."


def _list(_: argparse.Namespace, held: BaselineAccess) -> tuple[Any, Any]:
    found = held.listed()
    if not found["baselines"]:
        return found, "There is no baseline; `ragmon baseline set NAME` saves one."
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("name", "version", "of", "saved (UTC)", "by", "from", ""):
        table.add_column(name, overflow="fold")
    table.add_column("samples", justify="right")
    for row in found["baselines"]:
        moment = datetime.fromtimestamp(row["created_at"], UTC).strftime("%Y-%m-%d %H:%M")
        state = "promoted" if row["promoted"] else ""
        cells = (row["kind"], moment, row["created_by"], row["provenance"], state)
        table.add_row(row["name"], str(row["version"]), *cells, f"{row['samples']:,.0f}")
    return found, table


def _show(args: argparse.Namespace, held: BaselineAccess) -> tuple[Any, Any]:
    found = held.shown(args.name, args.version)
    found = json.loads(msgspec.json.encode(found))
    table = Table(title=f"{_title(found)}: {found['provenance']}", title_justify="left")
    table.box = box.SIMPLE_HEAD
    for name in ("of", "metric"):
        table.add_column(name)
    for name in ("value", "samples"):
        table.add_column(name, justify="right")
    if found["kind"] == "golden":
        for each in found["run"]["metrics"]:
            table.add_row("", each["name"], f"{each['mean']:.4f}", f"{each['samples']:,}")
    for each in found.get("levels", ()):
        of = f"{each['pipeline']} {each['dimension']} {each['value']}".rstrip()
        table.add_row(of, each["what"], f"{each['level']:.2%}", f"{each['n']:,.0f}")
    return found, table


_ACTIONS: dict[str, Callable[[argparse.Namespace, BaselineAccess], tuple[Any, Any]]] = {
    "set": _set,
    "list": _list,
    "show": _show,
    "promote": _promote,
    "delete": _delete,
}


def _title(row: dict[str, Any]) -> str:
    return f"{row['name']} version {row['version']}"


def _samples(row: dict[str, Any]) -> str:
    return f"{row['samples']:,.0f} {'queries' if row['kind'] == 'traffic' else 'cases'}"
