"""Have a sample of past answers judged by the language model of a running daemon.

Prints the expected cost first and asks for confirmation. The answers are drawn with a stored
probability, so that the estimates stay unbiased. The budget of the daemon applies: answers beyond
it are judged in the next hour or day.
"""

import argparse
import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ragmon.api_schema import JudgeForecast, JudgeProgress, Report
from ragmon.cli import remote
from ragmon.cli.connection import Connection
from ragmon.cli.console import say
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.rich_output import standard_error
from ragmon.clock import Clock, SystemClock
from ragmon.errors import RemoteError, SettingsError

_ASK_EVERY_S = 1.0
_STALLED_S = 120.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    remote.arguments(parser)
    parser.add_argument(
        "--since", default="1h", help="age of the oldest answer, or a time (default 1h)"
    )
    parser.add_argument(
        "--limit", type=int, default=100, help="largest number of answers (default 100)"
    )
    parser.add_argument("--pipeline", default="", help="only this pipeline")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only print the forecast")


def run(args: argparse.Namespace) -> int:
    """Print the forecast, ask, start the run and follow it."""
    session, console = remote.session(args), standard_error()
    request = {"since": args.since, "limit": args.limit, "pipeline": args.pipeline}
    forecast = remote.post(
        session, args.url, "/v1/judge", JudgeForecast, request | {"dry_run": True}
    )
    say(_forecast_text(forecast))
    if args.dry_run or not forecast.to_judge:
        return 0
    if not args.yes and not _agreed():
        return ExitCode.FINDING  # nothing was judged
    drawn = remote.post(session, args.url, "/v1/judge", JudgeForecast, request)
    left = _follow(session, args.url, drawn, console, SystemClock())
    if left.waiting:
        say(f"{left.waiting} answers are not judged yet: {_why(left)}. The daemon continues.")
    else:
        say("All of them are judged.")
    _show(session, args)
    return 0


def _forecast_text(forecast: JudgeForecast) -> str:
    most = forecast.at_most_usd
    cost = "cost unknown: judge.llm.prices has no price for the model"
    if most is not None:
        about = forecast.about_usd
        cost = f"at most ${most:.2f}" + (f", about ${about:.2f}" if about else "")
    budget = forecast.budget_left
    text = (
        f"{forecast.to_judge:,} of {forecast.answers:,} answers to judge "
        f"({forecast.judged_before:,} judged before); {cost}; "
        f"at most {forecast.at_most_tokens:,} tokens."
    )
    if budget is not None and budget < forecast.to_judge + forecast.waiting:
        text += (
            f"\nThe budget allows {budget:,} judgements now and {forecast.waiting:,} answers are "
            "queued already: the rest is judged in the next hour or day."
        )
    return text


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise SettingsError("no terminal to confirm on", hint="Add --yes, or --dry-run")
    return input("Judge them? [y/N] ").strip().lower() in ("y", "yes")


def _follow(
    session: Connection, url: str, drawn: JudgeForecast, console: Console, clock: Clock
) -> JudgeProgress:
    """Progress bar until the queue is empty or no longer moves."""
    columns = (TextColumn("Judging"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    total = max(drawn.waiting, drawn.to_judge)
    moved_at, last = clock.monotonic(), total
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=total)
        while True:
            left = remote.get(session, url, "/v1/judge", JudgeProgress)
            progress.update(task, completed=max(total - left.waiting, 0))
            if left.waiting != last:
                moved_at, last = clock.monotonic(), left.waiting
            used_up = left.budget_left == 0 or left.paused_s > _ASK_EVERY_S
            limit_s = 10 * _ASK_EVERY_S if used_up else _STALLED_S
            if not left.waiting or clock.monotonic() - moved_at > limit_s:
                return left
            clock.sleep(_ASK_EVERY_S)


def _why(left: JudgeProgress) -> str:
    if left.paused_s:
        return f"the endpoint failed and is tried again in {left.paused_s:.0f} s"
    return "the budget is used up" if left.budget_left == 0 else "the endpoint is slow"


def _show(session: Connection, args: argparse.Namespace) -> None:
    window = args.since if args.since[-1:] in "smhd" else "24h"
    try:
        report = remote.get(
            session, args.url, "/v1/report", Report, window=window, pipeline=args.pipeline
        )
    except RemoteError:
        return  # shorter than the shortest window, or longer than what is kept
    mean = report.metrics.get("faithfulness/llm")
    if mean:
        say(
            f"Faithfulness of the last {window}: {mean.estimate:.3f} "
            f"({mean.lower:.3f} to {mean.upper:.3f}, {mean.samples} judged)."
        )
