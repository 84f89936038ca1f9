"""Checks of `ragmon doctor` that a running daemon answers: itself, sources, sinks, judges."""

from collections import Counter
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus

from prometheus_client.parser import text_string_to_metric_families

from ragmon import __version__
from ragmon.api_schema import JudgeProgress, NotificationQueue
from ragmon.cli import remote
from ragmon.cli.connection import Answer, Connection
from ragmon.cli.health_checks import Area, HealthFinding
from ragmon.clock import Clock
from ragmon.counts import counted
from ragmon.durations import rounded_duration_text
from ragmon.errors import RemoteError

_NOT_THERE = "not_found"  # of what was asked for: nothing was sent
_MOST_REFUSED = 0.01  # of all records
_MOST_REASONS = 5
_STALE_S = 3_600.0
_WAITED_S = 600.0
_MOST_APART_S = 5.0  # a sender that is further off is seen in windows of minutes


class DaemonChecks:
    """One daemon; /metrics is asked for once."""

    def __init__(self, session: Connection, url: str, clock: Clock) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._clock = clock
        self.answered = False

    @cached_property
    def metrics(self) -> str:
        """Text of /metrics.

        Raises:
            RemoteError: there is none.
        """
        answer = self._session.request("GET", f"{self._url}/metrics")
        if not answer.ok:
            raise _refused(f"{self._url}/metrics", answer)
        return answer.content.decode()

    @cached_property
    def _samples(self) -> list[tuple[str, Mapping[str, str], float]]:
        return [
            (sample.name, sample.labels, sample.value)
            for family in text_string_to_metric_families(self.metrics)
            for sample in family.samples
        ]

    def daemon(self) -> Iterator[HealthFinding]:
        """It answers, is ready, and is of this version."""
        area = Area("daemon")
        for path, remedy in (
            ("/livez", "A loop hangs: see its log and the runbook RagmonLoopStalled, then restart"),
            ("/readyz", "It starts, or its store cannot be written: see its log"),
        ):
            answer = self._session.request("GET", f"{self._url}{path}")
            self.answered = True
            if answer.ok:
                yield area.ok(f"{self._url}{path} answers {answer.status}")
            else:
                why = remote.detail(answer.content, answer.reason)
                yield area.problem(f"{self._url}{path} answers {answer.status}: {why}", remedy)
        versions = {labels["version"] for labels, _ in self._all("ragmon_build_info")}
        if versions and __version__ not in versions:
            yield area.warning(
                f"the daemon is {', '.join(versions)}, this command {__version__}",
                "Use the same version for both",
            )
        failing = [
            (labels["loop"], value)
            for labels, value in self._all("ragmon_loop_failures_total")
            if value
        ]
        for name, count in failing:
            yield area.warning(
                f"the loop {name} failed {count:,.0f} times since the start",
                "See the log of the daemon and the runbook RagmonLoopFailing",
            )
        yield from self._store(area)

    def _store(self, area: Area) -> Iterator[HealthFinding]:
        if lost := self._sum("ragmon_store_lost_commits"):
            yield area.problem(
                f"the last start did not find {lost:,.0f} acknowledged commits",
                "The disk fails, or an older copy was put in place: runbook RagmonStoreLostCommits",
            )
        if damaged := self._sum("ragmon_store_undecodable_total"):
            yield area.problem(
                f"{damaged:,.0f} rows of the store are damaged",
                "Run `ragmon verify`, and restore a backup",
            )

    def clock(self) -> Iterator[HealthFinding]:
        """This clock is the daemon's, and queries lie in the future of neither."""
        area = Area("clock")
        yield from self._difference(area)
        age_s = self._newest_age_s()
        ahead = sum(
            value
            for labels, value in self._all("ragmon_rejected_total")
            if labels.get("reason") == "future"
        )
        if ahead:
            yield area.problem(
                f"{counted(ahead, 'record')} refused, in the future by this clock",
                "Set the clocks of the senders, or of this machine, by NTP; see max_clock_skew",
            )
        if age_s is not None and age_s < -60.0:
            yield area.problem(
                f"the newest query is {rounded_duration_text(-age_s)} ahead of this clock",
                "Set the clock of this machine, or of the senders, by NTP",
            )
        elif not ahead:
            yield area.ok("no query lies in the future")

    def _difference(self, area: Area) -> Iterator[HealthFinding]:
        """Difference of the two clocks, to the second that HTTP tells."""
        before = self._clock.now()
        answer = self._session.request("GET", f"{self._url}/livez")
        after = self._clock.now()
        try:
            theirs = parsedate_to_datetime(answer.date).timestamp()
        except ValueError:
            yield area.skipped("the daemon, or a proxy before it, does not tell its time")
            return
        ahead = max(before - 1.0 - theirs, 0.0) - max(theirs - after, 0.0)
        if abs(ahead) > _MOST_APART_S:
            length = f"{abs(ahead):,.0f} s"
            side = "ahead of" if ahead > 0 else "behind"
            yield area.problem(
                f"the clock of this machine is {length} {side} the daemon's",
                "Set both by NTP: `timedatectl` or `chronyc tracking` shows which is wrong",
            )
        else:
            yield area.ok("the clocks of this machine and of the daemon agree")

    def sources(self) -> Iterator[HealthFinding]:
        """Records arrive, and few are refused."""
        area = Area("sources")
        stored = self._sum("ragmon_ingest_records_total")
        refused: Counter[str] = Counter()
        for labels, value in self._all("ragmon_rejected_total"):
            if value and labels.get("reason") != _NOT_THERE:
                refused[f"{labels.get('source')}: {labels.get('reason')}"] += int(value)
        if not stored:
            yield area.problem(
                "no record was stored since the start of the daemon",
                "Send some: see the guide Send; `ragmon trace-doctor` shows what traces lack",
            )
        age_s = self._newest_age_s()
        if age_s is not None and age_s > _STALE_S:
            yield area.warning(
                f"the newest query is {rounded_duration_text(age_s)} old",
                "See whether the application still sends, and its own log of the client",
            )
        elif stored:
            yield area.ok(f"{counted(stored, 'record')} stored since the start")
        total = sum(refused.values())
        if total > _MOST_REFUSED * (stored + total):
            reasons = ", ".join(
                f"{reason} ({count:,})" for reason, count in refused.most_common(_MOST_REASONS)
            )
            yield area.warning(
                f"{counted(total, 'record or request', 'records and requests')} refused: {reasons}",
                "The senders' answers name field and remedy; see the runbook RagmonRejectedRising",
            )
        for labels, lag_s in self._all("ragmon_tracing_tool_lag_seconds"):
            if lag_s > _STALE_S:
                yield area.warning(
                    f"the source {labels.get('name')} is {rounded_duration_text(lag_s)} behind its"
                    " tracing tool",
                    "While the history is read that is well; else see cannot_read in the log",
                )
        if kept := self._sum("ragmon_quarantine_entries"):
            yield area.warning(
                f"{kept:,.0f} entries are in quarantine, missing from all metrics",
                "`ragmon quarantine list` shows them, retry tries again",
            )

    def sinks(self, configured: int | None) -> Iterator[HealthFinding]:
        """Notifications arrive.

        Args:
            configured: number of sinks; None: not known.
        """
        area = Area("sinks")
        if configured == 0:
            yield area.warning(
                "no sink is configured: nobody is notified of an alert",
                "Configure `sinks`, or load the Prometheus rules that `ragmon rules` prints",
            )
        queue = self._get("/v1/notifications", NotificationQueue)
        if queue.given_up:
            lost = queue.dead_letters[0]
            yield area.problem(
                f"{queue.given_up:,} notifications were given up, the newest by {lost.sink}:"
                f" {lost.reason}",
                f"Mend the sink, try it by `ragmon notify-test {lost.sink}`, then `ragmon"
                " quarantine retry`",
            )
        waited_s = 0.0 if queue.oldest_at is None else self._clock.now() - queue.oldest_at
        if waited_s > _WAITED_S:
            yield area.problem(
                f"{queue.waiting:,} notifications wait, the oldest for"
                f" {rounded_duration_text(waited_s)}",
                'See ragmon_notifications_total{outcome="retried"} and the log for the reason',
            )
        elif not queue.given_up:
            yield area.ok(f"{queue.waiting:,} notifications wait, none was given up")

    def judge(self) -> Iterator[HealthFinding]:
        """Answers are judged."""
        area = Area("judge")
        if restarts := self._sum("ragmon_judge_restarts_total"):
            yield area.warning(
                f"the embedded judge was started again {restarts:,.0f} times",
                "See the log; answers that end it count as judge_hung or judge_crashed",
            )
        try:
            left = self._get("/v1/judge", JudgeProgress)
        except RemoteError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            yield area.ok("no language model is configured; the embedded judge reads the answers")
            return
        if left.paused_s > 0.0:
            yield area.problem(
                f"the language model failed: judging is paused for {left.paused_s:.0f} s",
                "See ragmon_judge_failures_total and the log for its answer",
            )
        elif left.budget_left == 0:
            yield area.warning(
                f"the budget of the language model is used up, {left.waiting:,} answers wait",
                "Raise sampling.judgements_per_hour or its dollars, or wait",
            )
        else:
            yield area.ok(f"{left.waiting:,} answers wait for the language model")

    def _get(self, path: str, kind: type[remote.Content]) -> remote.Content:
        return remote.get(self._session, self._url, path, kind)

    def _all(self, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
        return ((labels, value) for sample, labels, value in self._samples if sample == name)

    def _newest_age_s(self) -> float | None:
        """Seconds since the newest query, negative where it is ahead; None: there is none."""
        newest = self._sum("ragmon_watermark_timestamp_seconds")
        return self._clock.now() - newest if newest else None

    def _sum(self, name: str) -> float:
        return sum(value for _, value in self._all(name))


def _refused(url: str, answer: Answer) -> RemoteError:
    why = remote.detail(answer.content, answer.reason)
    return RemoteError(f"{url} answered {answer.status}: {why}", status=answer.status)
