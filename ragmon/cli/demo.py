"""Monitor a small RAG application over a day with two incidents: first its past, then live."""

import argparse
import tempfile
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import requests
from msgspec import Struct
from msgspec.structs import replace
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ragmon.alerts.as_json import AlertView
from ragmon.api_schema import AlertList, JudgeForecast, JudgeProgress, Report
from ragmon.cli import flags, remote
from ragmon.cli.alert_view import alert_view
from ragmon.cli.connection import Connection
from ragmon.cli.progress import piece_bar, share_bar
from ragmon.cli.rich_output import standard_output
from ragmon.cli.sender import Sender
from ragmon.cli.tables import ratio, report_view
from ragmon.clock import CpuClock, SystemClock
from ragmon.config import Settings
from ragmon.config.units import seconds
from ragmon.demo.application import FAST, STABLE, Application, build_application
from ragmon.demo.history import PIPELINE, QUERIES, LoggedBatch, TrafficPlan, history, live, plan_for
from ragmon.demo.incidents import AWAY_S, Incident, recurring
from ragmon.errors import RagmonError, SettingsError
from ragmon.logs import configure
from ragmon.report import PipelineReport, SliceReport

_SLICES = ["tenant", "channel", "kind"]
_PORT = 8321
_JUDGE_S = 30.0
_DETECT_S = 15.0
_UNJUDGED_S = 600.0
_ENOUGH = 0.995
_SAMPLE = 100  # answers that a language model judges, where one is configured
_SAMPLE_S = 120.0
_LOCAL = Connection({})


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} [--queries N] [--rate PER_SECOND] [--outage-every TIME] [--once]"
        " [--SETTING VALUE ...]"
    )
    parser.add_argument(
        "--queries", type=int, default=QUERIES, help=f"queries of the day (default {QUERIES:,})"
    )
    parser.add_argument(
        "--rate", type=float, default=5.0, help="live queries per second (default 5)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the generated traffic (default 0)"
    )
    parser.add_argument(
        "--outage-every",
        type=_period,
        metavar="TIME",
        help="repeat a 5 minute outage of the index this often while live, for example 20m",
    )
    parser.add_argument("--once", action="store_true", help="exit after the report")


def run(args: argparse.Namespace) -> int:
    """Start the daemon, send the day, print the report, then send live until Ctrl-C."""
    from ragmon.daemon.serve import Daemon  # noqa: PLC0415 - other commands start faster without

    with tempfile.TemporaryDirectory(prefix="ragmon-demo-") as folder:
        settings = _settings(args, folder)
        # Nobody who tries it reads a log beside the report, in JSON least of all.
        configure("console" if settings.log.format == "auto" else settings.log.format, "error")
        daemon = _start(Daemon, settings)
        play = Play(args, settings, daemon)
        thread = threading.Thread(target=play.run, name="demo", daemon=True)

        def ready(url: str) -> None:
            play.url = url
            thread.start()

        daemon.run(ready)
        play.stop.set()
        if thread.is_alive():
            thread.join()
    if play.failure is not None:
        raise play.failure
    return 0


class Play:
    """The demo's traffic and output, on a thread beside the daemon."""

    def __init__(self, args: argparse.Namespace, settings: Settings, daemon: Any) -> None:
        self.url = ""
        self.stop = threading.Event()
        self.failure: RagmonError | None = None
        self._args = args
        self._judged = settings.judge.grounding.enabled
        self._sampled = settings.judge.llm is not None
        self._daemon = daemon
        self._console = standard_output(markup=False)
        self._clock = SystemClock()

    def run(self) -> None:
        """The whole demo; when it ends, however it ends, so does the daemon."""
        try:
            self._run()
        except RagmonError as error:
            if not self._daemon.ending:  # an error caused by Ctrl-C is not a failure
                self.failure = error
        finally:  # also when the output is closed
            self._daemon.stop()

    def _run(self) -> None:
        application = build_application(CpuClock())  # a busy machine is no incident
        plan = plan_for(application, now=self._clock.now(), seed=self._args.seed)
        delivery = Sender(self.url, requests.Session(), stop=self.stop)
        self._back_fill(application, plan, delivery)
        self._await_judge()
        if self._sampled:
            self._await_sample()
        if self.stop.is_set():
            return
        self._console.print(report_view(_day(self.url)))
        self._console.print(_story(plan, self.url))
        for alert in self._await_alerts(plan):
            self._console.print(alert_view(alert))
        self._links(plan)
        if self._args.once:
            return
        self._console.print(
            Text.assemble("Sending live traffic. ", ("Ctrl-C", "bold"), " stops it.")
        )

        def send(batch: LoggedBatch) -> None:
            _deliver(delivery, batch)

        if (every := self._args.outage_every) is not None:
            coming = recurring(plan.incidents, self._clock.now(), every)
            plan = replace(plan, incidents=coming)
        live(application, plan, send, self._clock, self.stop, rate=self._args.rate)

    def _back_fill(self, application: Application, plan: TrafficPlan, delivery: Sender) -> None:
        with piece_bar() as progress:
            task = progress.add_task("A day of traffic", total=self._args.queries)
            for batch in history(application, plan, queries=self._args.queries, batch=200):
                if self.stop.is_set():
                    return
                _deliver(delivery, batch)
                progress.advance(task, len(batch.queries))

    def _await_judge(self) -> None:
        """Wait until the embedded judge has read the day, for half a minute at most."""
        until = self._clock.monotonic() + _JUDGE_S
        with share_bar() as progress:
            task = progress.add_task("Reading the answers", total=1.0)
            while self._judged and not self.stop.is_set() and self._clock.monotonic() < until:
                share = _day(self.url).metrics.get("grounding_coverage")
                coverage = (share and share.estimate) or 0.0
                progress.update(task, completed=coverage)
                if coverage > _ENOUGH:
                    return
                self.stop.wait(0.5)

    def _await_sample(self) -> None:
        """Have the configured language model judge a sample of the day."""
        request = {"since": "24h", "limit": _SAMPLE}
        drawn = remote.post(_LOCAL, self.url, "/v1/judge", JudgeForecast, request)
        waiting = total = drawn.waiting
        until = self._clock.monotonic() + _SAMPLE_S
        with piece_bar() as progress:
            task = progress.add_task("Asking the language model", total=total)
            while waiting and not self.stop.is_set() and self._clock.monotonic() < until:
                left = remote.get(_LOCAL, self.url, "/v1/judge", JudgeProgress)
                waiting = left.waiting
                progress.update(task, completed=total - waiting)
                self.stop.wait(0.5)

    def _await_alerts(self, plan: TrafficPlan) -> list[AlertView]:
        """The alert of each incident, once the whole day is judged."""
        until = self._clock.monotonic() + _DETECT_S
        while True:
            asked = {"since": str(plan.incidents.outage.start), "limit": "1000"}
            listed = remote.get(_LOCAL, self.url, "/v1/alerts", AlertList, **asked)
            judged = (listed.judged_until or 0.0) > plan.now - _UNJUDGED_S
            if judged or self._clock.monotonic() >= until or self.stop.wait(0.5):
                break
        incidents = (plan.incidents.outage, plan.incidents.rollout)
        alerts = (_alert_of(incident, listed.alerts) for incident in incidents)
        return [alert for alert in alerts if alert is not None]

    def _links(self, plan: TrafficPlan) -> None:
        since = int(plan.incidents.rollout.start)
        for what, path in (
            ("Overview, with what is wrong on top", "/"),
            ("Queries that retrieved nothing", "/queries?failing=zero_result"),
            ("Worst answers", f"/queries?failing=unfaithful&since={since}"),
            ("Answers users disliked", f"/queries?failing=disliked&since={since}"),
            ("Prometheus metrics", "/metrics"),
            ("Report as JSON", "/v1/report?window=24h"),
            ("Alerts with their evidence as JSON", "/v1/alerts"),
        ):
            self._console.print(f"  {what}: {self.url}{path}", highlight=False, soft_wrap=True)


def _alert_of(incident: Incident, alerts: Sequence[AlertView]) -> AlertView | None:
    """The first alert that began in an incident, on the metric that it harms most."""
    matching = [
        alert
        for alert in alerts
        if alert.metric == incident.shows_in[0]
        and (alert.type == "canary" or (alert.type == "anomaly" and not alert.dimension))
        and alert.evidence is not None
        and incident.start <= alert.began_at
        and (incident.end is None or alert.began_at < incident.end)
    ]
    return min(matching, key=lambda alert: alert.began_at, default=None)


def _day(url: str) -> Report:
    """The report of the last 24 hours."""
    return remote.get(_LOCAL, url, "/v1/report", Report, window="24h")


class _Row(Struct, frozen=True):
    metric: str
    title: str


_ROWS = (
    _Row("error", "error"),
    _Row("zero_result", "zero"),
    _Row("hit@3/label", "hit@3"),
    _Row("attribution", "attrib."),
    _Row("grounding", "ground."),
    _Row("positive_feedback", "liked"),
)


def _story(plan: TrafficPlan, url: str) -> RenderableType:
    """Table of the two incidents, in ragmon's own numbers."""
    title = "What happened when (UTC)"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("when", no_wrap=True)
    table.add_column("what", no_wrap=True)
    for row in _ROWS:
        table.add_column(row.title, justify="right")
    outage, rollout = plan.incidents.outage, plan.incidents.rollout
    assert outage.end is not None
    length = outage.end - outage.start
    before = _report(url, length, outage.start)
    during = _report(url, length, outage.end)
    since = _report(url, plan.now - rollout.start, plan.now)
    table.add_row(_span(outage.start - length, outage.start), "before", *_cells(before))
    table.add_row(_when(outage), outage.name, *_cells(during))
    for version in (STABLE, FAST):
        slices = since.slices if since else []
        part = next((each for each in slices if each.value == version), None)
        table.add_row(_when(rollout), version, *_cells(part))
    texts = [
        Text.assemble((f"{_when(incident)} {incident.name}: ", "bold"), incident.what)
        for incident in (outage, rollout)
    ]
    return Group(table, *texts, "")


def _report(url: str, window_s: float, end: float) -> PipelineReport | None:
    report = remote.get(
        _LOCAL,
        url,
        "/v1/report",
        Report,
        window=f"{int(window_s)}s",
        end=str(end),
        pipeline=PIPELINE,
    )
    return report.pipelines[0] if report.pipelines else None


def _cells(series: PipelineReport | SliceReport | None) -> list[str]:
    metrics = series.metrics if series else {}
    return [ratio(metrics.get(row.metric)) for row in _ROWS]


def _when(incident: Incident) -> str:
    return _span(incident.start, incident.end)


def _span(start: float, end: float | None) -> str:
    first, last = (
        "now" if moment is None else datetime.fromtimestamp(moment, UTC).strftime("%H:%M")
        for moment in (start, end)
    )
    return f"{first}–{last}"


def _deliver(delivery: Sender, batch: LoggedBatch) -> None:
    for path, records in (("/v1/queries", batch.queries), ("/v1/feedback", batch.feedback)):
        if records:
            delivery.post(path, _ndjson(records))


def _ndjson(records: Sequence[Struct]) -> bytes:
    return b"\n".join(map(msgspec.json.encode, records))


def _period(text: str) -> float:
    """Seconds from one outage to the next."""
    every = float(seconds(text))
    if every < 2 * AWAY_S:
        raise argparse.ArgumentTypeError(
            f"an outage takes {AWAY_S / 60:g} minutes; use at least twice that"
        )
    return every


def _settings(args: argparse.Namespace, folder: str) -> Settings:
    overrides = flags.overrides(args.rest)
    overrides.setdefault("data_dir", str(Path(folder) / "data"))
    overrides.setdefault("slices", ",".join(_SLICES))
    overrides.setdefault("sampling.judgements_per_hour", str(4 * _SAMPLE))
    overrides.setdefault("judge.grounding.max_cpu", "1")  # a day of answers in half a minute
    args.rest = [word for key, value in overrides.items() for word in (f"--{key}", value)]
    return flags.settings(args).settings


def _start(daemon: Any, settings: Settings) -> Any:
    """The daemon on its port, or on a free one when that is taken."""
    try:
        return daemon(settings, SystemClock())
    except SettingsError:
        if settings.port != _PORT:
            raise
        return daemon(settings.model_copy(update={"port": 0}), SystemClock())
