"""Options of the LLM judge for `evaluate` and `compare`: the settings ``judge.llm``."""

import argparse
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragmon.cli.console import warn
from ragmon.cli.progress import piece_bar
from ragmon.errors import SettingsError
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.score.parallel import Track

if TYPE_CHECKING:
    from ragmon.evaluate.score.llm import CostForecast

REPLIES = Path("ragmon-replies")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    group = parser.add_argument_group("LLM judge (settings judge.llm)")
    group.add_argument(
        "--config", type=Path, metavar="FILE", help="settings in YAML (default ragmon.yaml)"
    )
    text = "a setting such as judge.llm.base_url=http://localhost:11434/v1; may be repeated"
    group.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help=text)
    group.add_argument("--no-llm", action="store_true", help="do not use the LLM judge")
    text = f"cache of replies, which quote answers (default {REPLIES})"
    group.add_argument("--replies", type=Path, default=REPLIES, metavar="FILE", help=text)
    group.add_argument(
        "--max-cost",
        type=float,
        metavar="DOLLARS",
        help="do not start if it is likely to cost more; stop there",
    )


def options(args: argparse.Namespace) -> Any:
    """The settings of the judge; None when none is configured, or --no-llm is set.

    Raises:
        SettingsError: a setting is wrong.
    """
    if args.no_llm:
        return None
    from ragmon.config import load  # noqa: PLC0415 - half of the time that a command takes

    flags = {}
    for setting in args.set:
        key, equals, value = setting.partition("=")
        if not equals:
            raise SettingsError(f"--set {setting!r} has no value", hint="Write KEY=VALUE")
        flags[key] = value
    return load(args.config, flags).settings.judge.llm


@contextmanager
def replies(path: Path) -> Iterator[Any]:
    """The cached replies."""
    from ragmon.evaluate.score.reply_cache import FileCache  # noqa: PLC0415

    kept = FileCache(path)
    try:
        yield kept
    finally:
        kept.close()


def progress(args: argparse.Namespace, what: str) -> Track:
    """Progress bar on stderr that disappears at the end."""

    def tracked(work: Sequence[Any]) -> Iterator[Any]:
        with piece_bar(quiet=args.quiet) as bar:
            yield from bar.track(work, description=what)

    return tracked


def limit(args: argparse.Namespace) -> float:
    """Dollars that may be spent."""
    return math.inf if args.max_cost is None else float(args.max_cost)


def announce(what: str, expected: "CostForecast", args: argparse.Namespace) -> None:
    """Print the expected tokens and cost before judging.

    Raises:
        DataError: it is likely to cost more than allowed.
    """
    tokens = f"about {expected.tokens:,} tokens (at most {expected.most_tokens:,})"
    cost = ""
    if expected.cost_usd is not None and expected.most_cost_usd is not None:
        cost = f", ${expected.cost_usd:.2f} (at most ${expected.most_cost_usd:.2f})"
    if not args.quiet:
        warn(f"judging {what}: {tokens}{cost}; cached replies are free")
    if args.max_cost is None:
        return
    if expected.cost_usd is None:
        hint = "Set judge.llm.model and judge.llm.prices"
        raise DataError("the model has no price", field="--max-cost", hint=hint)
    if expected.cost_usd > args.max_cost:
        message = f"judging is likely to cost ${expected.cost_usd:.2f}"
        raise DataError(message, field="--max-cost")
