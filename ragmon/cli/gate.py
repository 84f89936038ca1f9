"""May this go live? Compare an evaluation with a baseline, case by case.

Exit status: 0 passed, 1 a regression, 2 the data or the arguments cannot be used.

Without rules every headline metric may not get worse. A fall fails when it is larger than allowed
and proven by a paired test (corrected for the number of rules).
"""

import argparse
import sys
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from ragmon.cli import baseline_access
from ragmon.cli.evaluate import BASELINES, write
from ragmon.config import Settings
from ragmon.errors import RagmonError
from ragmon.evaluate.compare.gate import Decision, decide
from ragmon.evaluate.compare.rules import GateRule, Policy, rules_of
from ragmon.evaluate.document import Evaluation, load, parse
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.loaders import yaml_files
from ragmon.evaluate.report import junit, markdown, table

NAME = "gate"
HELP = "pass or fail a release against a baseline"
_LIMIT = "METRIC[:KEY[=VALUE]]=NUMBER"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("current", type=Path, help="what `ragmon evaluate --json` wrote")
    add("--baseline", required=True, metavar="NAME|FILE", help="a saved baseline, or a JSON file")
    add("--baselines", type=Path, default=BASELINES, help="folder of saved baselines")
    add("--data-dir", type=Path, metavar="DIR", help="store with baselines (default ragmon-data)")
    add("--url", default="", help="a running ragmon with baselines")
    add("--token-file", type=Path, metavar="FILE", help="a file with its bearer token")
    add("--rules", type=Path, metavar="FILE", help="YAML: rules, alpha, min_effect, max_missing")
    add("--max-drop", action="append", default=[], metavar=_LIMIT, help="may get worse by this")
    add("--min", action="append", default=[], metavar=_LIMIT, help="the mean must reach this")
    add("--max", action="append", default=[], metavar=_LIMIT, help="the mean must not pass this")
    add("--min-effect", type=float, metavar="NUMBER", help="smaller falls never fail (0.01)")
    add("--alpha", type=float, metavar="NUMBER", help="chance of a false alarm (0.05)")
    add("--max-missing", type=float, metavar="SHARE", help="cases without a result (0.05)")
    add("--strict", action="store_true", help="a fall that is not proven fails too")
    add("--markdown", type=Path, metavar="FILE", help="summary for a pull request")
    add("--junit", type=Path, metavar="FILE", help="one test case a rule")


def run(args: argparse.Namespace) -> int:
    """Decide, write what was asked for."""
    try:
        current = load(args.current)
        decision = decide(_baseline(args), current, _policy(args))
        _write(args, decision)
    except RagmonError as error:
        print(f"ragmon: {error}", file=sys.stderr)
        return 2
    return 0 if decision.passed else 1


def _write(args: argparse.Namespace, decision: Decision) -> None:
    table.show_decision(table.standard_output(), decision)
    if args.markdown is not None:
        write(args.markdown, markdown.summary(decision).encode())
    if args.junit is not None:
        write(args.junit, junit.xml(decision))


def _baseline(args: argparse.Namespace) -> Evaluation:
    """A file, or one by name: of the folder, else of the store or the daemon that holds it."""
    path = Path(args.baseline)
    if path.suffix == ".json" or path.is_file():
        return load(path)
    saved = args.baselines / f"{args.baseline}.json"
    data_dir = args.data_dir or Settings().data_dir
    if not args.url and (saved.is_file() or not data_dir.is_dir()):
        return load(saved)
    settings = Settings(data_dir=data_dir)
    with baseline_access.opened(args, settings) as baselines:
        detail = baselines.shown(args.baseline, None)
    if detail.run is UNSET:
        hint = "Save a golden run: ragmon baseline set NAME --run FILE"
        raise DataError(
            "is a baseline of live traffic, not of a golden run", field=args.baseline, hint=hint
        )
    return parse(bytes(detail.run), Path(args.baseline))


def _policy(args: argparse.Namespace) -> Policy:
    policy = Policy() if args.rules is None else _read_policy(args.rules)
    rules = rules_of(args.max_drop, args.min, args.max)
    flags = {name: getattr(args, name) for name in ("min_effect", "alpha", "max_missing")}
    passed = {name: value for name, value in flags.items() if value is not None}
    strict = policy.strict or args.strict
    try:
        return replace(policy, rules=(*policy.rules, *rules), strict=strict, **passed)
    except ValueError as error:
        raise DataError(str(error)) from error


def _read_policy(path: Path) -> Policy:
    names = (*Policy.__struct_fields__, *GateRule.__struct_fields__)
    return yaml_files.read(path, Policy, names, "rules: [{metric: hit@5, max_drop: 0.02}]")
