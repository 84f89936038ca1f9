"""Pass or fail a release: compare its evaluation with a baseline, case by case.

Exit status 1: a regression.

Without rules no headline metric may get worse. A drop fails if it is larger than allowed and
significant in a paired test (corrected for the number of rules).
"""

import argparse
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from ragmon.cli import baseline_access
from ragmon.cli.console import say_json
from ragmon.cli.evaluate import BASELINES, write
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.results import GateResult
from ragmon.cli.rich_output import standard_output
from ragmon.config import Settings
from ragmon.evaluate.compare.gate import Decision, decide
from ragmon.evaluate.compare.rules import GateRule, Policy, rules_of
from ragmon.evaluate.document import Evaluation, load, parse
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.loaders import yaml_files
from ragmon.evaluate.report import junit, markdown, table

_LIMIT = "METRIC[:KEY[=VALUE]]=NUMBER"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add(
        "current",
        type=Path,
        help="evaluation of the release, the output of `ragmon evaluate --json`",
    )
    add("--baseline", required=True, metavar="NAME|FILE", help="a saved baseline, or a JSON file")
    add("--baselines", type=Path, default=BASELINES, help="folder of saved baselines")
    add(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="data_dir of the store with baselines (default ragmon-data)",
    )
    add("--url", default="", help="address of a daemon with baselines")
    add("--token-file", type=Path, metavar="FILE", help="file that holds its bearer token")
    add(
        "--rules", type=Path, metavar="FILE", help="YAML with rules, alpha, min_effect, max_missing"
    )
    add("--max-drop", action="append", default=[], metavar=_LIMIT, help="largest drop allowed")
    add("--min", action="append", default=[], metavar=_LIMIT, help="smallest mean allowed")
    add("--max", action="append", default=[], metavar=_LIMIT, help="largest mean allowed")
    add(
        "--min-effect", type=float, metavar="NUMBER", help="smaller drops never fail (default 0.01)"
    )
    add("--alpha", type=float, metavar="NUMBER", help="probability of a false alarm (default 0.05)")
    add(
        "--max-missing",
        type=float,
        metavar="SHARE",
        help="largest share of cases without a result (default 0.05)",
    )
    add("--strict", action="store_true", help="fail on drops that are not significant, too")
    add("--markdown", type=Path, metavar="FILE", help="write a summary for a pull request")
    add("--junit", type=Path, metavar="FILE", help="write JUnit XML with one test case per rule")
    add("--json", action="store_true", help="print the decision as JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Decide, write the requested files, return the exit status."""
    current = load(args.current)
    decision = decide(_baseline(args), current, _policy(args))
    _write(args, decision)
    return ExitCode.OK if decision.passed else ExitCode.FINDING


def _write(args: argparse.Namespace, decision: Decision) -> None:
    if args.json:
        say_json(
            GateResult(
                passed=decision.passed,
                baseline=decision.baseline,
                current=decision.current,
                cases=decision.cases,
                checks=decision.checks,
                notes=decision.notes,
            )
        )
    else:
        table.show_decision(standard_output(), decision)
    if args.markdown is not None:
        write(args.markdown, markdown.summary(decision).encode())
    if args.junit is not None:
        write(args.junit, junit.xml(decision))


def _baseline(args: argparse.Namespace) -> Evaluation:
    """A baseline from a file, or by name from the folder, the store or its daemon."""
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
