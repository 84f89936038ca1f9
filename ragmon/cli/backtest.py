"""Run the detectors over past queries and show what would have fired, before enabling them.

Queries come from files (JSON lines as ragmon takes them, also compressed with gzip or zstd), or
from the store of `data_dir` when no file is given. Detectors and alerts are those of the
configuration and run on the same code as in the daemon.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ragmon.alerts.lines import line
from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest import costs, from_store, log_files, table
from ragmon.backtest import run as backtest
from ragmon.backtest.queries import Queries
from ragmon.backtest.run import History, between
from ragmon.cli import flags
from ragmon.cli.console import say, warn
from ragmon.cli.input_files import check_files
from ragmon.cli.progress import share_bar
from ragmon.cli.rich_output import standard_output
from ragmon.clock import Clock, SystemClock
from ragmon.config import Settings
from ragmon.config.sections import PrivacySettings
from ragmon.config.units import seconds
from ragmon.daemon.alerting.build import build_detection, build_maintenance, build_timing
from ragmon.daemon.build import build_pipeline, open_reader
from ragmon.detectors import AlertKey
from ragmon.detectors.detection import Detection
from ragmon.errors import SettingsError


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = f"{parser.prog} [--config FILE] [--SETTING=VALUE ...] [FILE ...]"
    add = parser.add_argument
    add(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="JSON lines, may be compressed with gzip or zstd",
    )
    add(
        "--format",
        choices=("table", "jsonl"),
        default="table",
        help="jsonl: one line per transition",
    )
    add(
        "--last",
        metavar="DURATION",
        default="",
        help="only the last part of the log, for example 14d",
    )


def run(args: argparse.Namespace) -> int:
    """Replay the log through the detectors and print the alerts."""
    args.files += [Path(word) for word in flags.own_words(args)]
    settings = flags.settings(args).settings
    detection = build_detection(settings, ())
    build_timing(settings)
    queries = _read(args, settings, SystemClock())
    return _backtest(args, settings, detection, queries)


def _backtest(
    args: argparse.Namespace, settings: Settings, configured: Detection, queries: Queries
) -> int:
    rules = configured.rules
    simpler = costs.simpler(rules)

    def on_trial(key: AlertKey) -> bool:
        return any(costs.raised_by(rule, key) for rule in simpler)

    timeline = AlertTimeline(
        lambda: Detection(queries.columns, [*rules, *simpler], configured.options),
        build_timing(settings),
        build_maintenance(settings),
        on_trial=on_trial,
        finished_log=True,
    )
    observations = queries.observations
    with _progress("Judging", float(observations.timestamps.max())) as reached:
        history = backtest.run(timeline, observations, reached)
    if args.format == "jsonl":
        _print_lines(history)
        return 0
    total = configured.options.false_alarms_per_month
    bill = table.Bill(
        costs.by_rule(rules, history, total=total),
        costs.by_rule(simpler, history, on_trial=True, total=total),
        costs.per_query(observations, queries.columns, history),
    )
    standard_output(markup=False).print(table.view(queries, history, bill))
    return 0


def _read(args: argparse.Namespace, settings: Settings, clock: Clock) -> Queries:
    """Queries of the files or the store; rejected lines are printed on stderr."""
    queries = _from_files(args.files, settings, clock) if args.files else _from_store(settings)
    for refusal in queries.refusals:
        place = f"{refusal.path}:{refusal.line}: {refusal.field or 'line'}"
        warn(f"{place}: {refusal.error}; {refusal.remedy}")
    if queries.refused:
        warn(table.refused(queries.refused))
    if not len(queries.observations):
        raise SettingsError("no queries to read", hint="Pass files of JSON lines")
    if args.last:
        newest = float(queries.observations.timestamps.max())
        kept = between(queries.observations, newest - _seconds(args.last), newest)
        return replace(queries, observations=kept)
    return queries


def _from_files(files: list[Path], settings: Settings, clock: Clock) -> Queries:
    check_files(files)
    # Texts are not kept, so nothing needs to be redacted.
    pipeline = build_pipeline(settings.model_copy(update={"privacy": PrivacySettings(text="keep")}))
    with _progress("Reading", sum(path.stat().st_size for path in files)) as reached:
        return log_files.read(
            files,
            pipeline,
            now=clock.now(),
            max_skew_s=settings.max_clock_skew,
            progress=reached,
        )


def _from_store(settings: Settings) -> Queries:
    try:
        opened = open_reader(settings)
    except SettingsError as error:
        problem = error.args[0]
        raise SettingsError(
            f"no queries to read: {problem}", hint="Pass files, or set data_dir or store"
        ) from error
    with opened as reader:
        return from_store.read(reader, build_pipeline(settings), 0.0, float("inf"))


def _print_lines(history: History) -> None:
    for event in history.events:
        content = line(event)
        if content is not None:
            say(msgspec.json.encode(content).decode())


def _seconds(text: str) -> float:
    try:
        return float(seconds(text))
    except ValueError as error:
        raise SettingsError(f"--last: {error}") from error


@contextmanager
def _progress(what: str, total: float) -> Iterator[Callable[[float], None]]:
    """Progress bar on stderr while the block runs, if that is a terminal."""
    with share_bar() as progress:
        task = progress.add_task(what, total=total)
        yield lambda reached: progress.update(task, completed=reached)
