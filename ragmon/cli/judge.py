"""Have past answers judged by the language model of a running daemon, or report on its judges.

Prints the expected cost first and asks for confirmation. The answers are drawn with a stored
probability, so that the estimates stay unbiased. The budget of the daemon applies: answers beyond
it are judged in the next hour or day.

`ragmon judge report` judges nothing: it shows how far each judge agrees with people, what it costs,
and which of them to trust for what.
"""

import argparse
import sys

from ragmon.api_schema import JudgeForecast, JudgeProgress, Report
from ragmon.cli import judge_report, remote, window_flags
from ragmon.cli.connection import Connection
from ragmon.cli.console import say, say_json, warn
from ragmon.cli.exit_codes import ExitCode
from ragmon.cli.pipeline_names import check_pipeline
from ragmon.cli.progress import piece_bar
from ragmon.cli.results import JudgeRun
from ragmon.cli.tables import ratio, ratio_interval
from ragmon.clock import Clock, SystemClock
from ragmon.errors import RemoteError, SettingsError
from ragmon.report import MeanEstimate
from ragmon.web.judge_report_endpoints import DEFAULT_LIMIT, DEFAULT_SINCE

_SINCE = "1h"
_LIMIT = 100
_ASK_EVERY_S = 1.0
_STALLED_S = 120.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("run", "report"),
        default="run",
        help="run judges past answers (default), report shows whom to trust for what",
    )
    remote.arguments(parser)
    parser.add_argument(
        "--since",
        default="",
        metavar="TIME",
        help=f"age or time of the oldest answer (default {_SINCE}; report: {DEFAULT_SINCE})",
    )
    parser.add_argument(
        "--limit",
        type=int,
        help=f"largest number of answers (default {_LIMIT}); report: of those on which judges are "
        f"at odds (default {DEFAULT_LIMIT})",
    )
    window_flags.pipeline_argument(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="only print the forecast")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the forecast, ask, start the run and follow it; or print the report."""
    session = remote.session(args)
    if args.action == "report":
        judge_report.show(args, session)
        return 0
    args.since = args.since or _SINCE
    args.limit = _LIMIT if args.limit is None else args.limit
    request = {"since": args.since, "limit": args.limit, "pipeline": args.pipeline}
    forecast = remote.post(
        session, args.url, "/v1/judge", JudgeForecast, request | {"dry_run": True}
    )
    if not forecast.answers:
        check_pipeline(session, args.url, args.pipeline)
    (warn if args.json else say)(_forecast_text(forecast))
    if args.dry_run or not forecast.to_judge:
        if args.json:
            say_json(JudgeRun(forecast=forecast, progress=None, faithfulness=None))
        return 0
    if not args.yes and not _agreed():
        return ExitCode.FINDING  # nothing was judged
    drawn = remote.post(session, args.url, "/v1/judge", JudgeForecast, request)
    left = _follow(session, args.url, drawn, SystemClock())
    window, mean = _faithfulness(session, args)
    if args.json:
        say_json(JudgeRun(forecast=forecast, progress=left, faithfulness=mean))
        return 0
    if left.waiting:
        say(f"{left.waiting} answers are not judged yet: {_why(left)}. The daemon continues.")
    else:
        say("All of them are judged.")
    if mean is not None:
        say(
            f"Faithfulness of the last {window}: {ratio(mean)} "
            f"({ratio_interval(mean)}, {mean.samples:,} judged)."
        )
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


def _follow(session: Connection, url: str, drawn: JudgeForecast, clock: Clock) -> JudgeProgress:
    """Progress bar until the queue is empty or no longer moves."""
    total = max(drawn.waiting, drawn.to_judge)
    moved_at, last = clock.monotonic(), total
    with piece_bar() as progress:
        task = progress.add_task("Judging", total=total)
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


def _faithfulness(session: Connection, args: argparse.Namespace) -> tuple[str, MeanEstimate | None]:
    """The window, and the estimate of the model's verdicts in it; None where there is none."""
    window = args.since if args.since[-1:] in "smhd" else "24h"
    try:
        report = remote.get(
            session, args.url, "/v1/report", Report, window=window, pipeline=args.pipeline
        )
    except RemoteError:
        return window, None  # shorter than the shortest window, or longer than what is kept
    return window, report.metrics.get("faithfulness/llm")
