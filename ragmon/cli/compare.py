"""Compare two evaluations side by side: metrics, differences and the cases that changed."""

import argparse
from pathlib import Path

import msgspec
from rich.markup import escape

from ragmon.cli import llm_options
from ragmon.cli.evaluate import write
from ragmon.cli.rich_output import standard_output
from ragmon.clock import SystemClock
from ragmon.evaluate.compare.comparison import compare, pair
from ragmon.evaluate.compare.preference import (
    NO_ANSWERS,
    NOT_CONFIGURED,
    Preferences,
    candidate_pairs,
    preferences,
)
from ragmon.evaluate.document import Evaluation, load
from ragmon.evaluate.report import table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "first", type=Path, help="an evaluation, the output of `ragmon evaluate --json`"
    )
    parser.add_argument("second", type=Path, help="the evaluation to compare with it")
    parser.add_argument("--moves", type=int, default=20, help="changed cases to list (default 20)")
    parser.add_argument(
        "--noise",
        action="store_true",
        help="the second run had irrelevant chunks added: show the loss",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the comparison as JSON")
    parser.add_argument(
        "--duels", type=int, default=200, help="pairs of answers for the LLM judge (default 200)"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    llm_options.arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    first, second = load(args.first), load(args.second)
    comparison = compare(first, second, args.moves)
    preferred = _preferences(args, first, second)
    if args.json is not None:
        content = msgspec.structs.asdict(comparison) | {"preferences": preferred}
        write(args.json, msgspec.json.format(msgspec.json.encode(content), indent=1))
    console = standard_output()
    table.show_comparison(console, comparison)
    if args.noise:
        table.show_noise(console, comparison)
    if isinstance(preferred, str):
        console.print(f"[dim]pairwise preference: {escape(preferred)}[/]")
    else:
        table.show_preferences(console, preferred)
    return 0


def _preferences(
    args: argparse.Namespace, first: Evaluation, second: Evaluation
) -> Preferences | str:
    """Preferences of the LLM judge, or the reason for having none."""
    options = llm_options.options(args)
    if options is None:
        return NOT_CONFIGURED
    from ragmon.evaluate.compare.pairwise_judge import PairwiseJudge  # noqa: PLC0415 - only here

    pairs = candidate_pairs(first, second, pair(first, second), args.duels)
    if not pairs:
        return NO_ANSWERS
    with llm_options.replies(args.replies) as cache:
        judge = PairwiseJudge(options, SystemClock(), cache, llm_options.limit(args))
        try:
            expected = judge.forecast(pairs)
            llm_options.announce(f"{len(pairs):,} pairs", expected, args)
            return preferences(pairs, judge, llm_options.progress(args, "comparing"))
        finally:
            judge.close()
