"""A day of traffic in the past, then live: the records an application would have logged.

Measured: every chunk, score, answer, citation and latency comes from a run of the application.
The history runs each question a few times in each situation that it meets, and gives each time
that it was asked one of those runs; live traffic runs the application for every question.
Simulated: the times, the users and what they say of an answer, which depends on whether it was
truly taken from a chunk that answers the question.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from threading import Event

from msgspec import Struct

from ragmon.clock import Clock
from ragmon.demo.application import FAST, STABLE, Application, ServedQuery
from ragmon.demo.feedback import PendingFeedback, opinion
from ragmon.demo.incidents import Incidents, incidents
from ragmon.demo.questions import KnownQuestion, known, load
from ragmon.demo.traffic import API, DAY_S, AskedQuestion, asks, day, steady
from ragmon.records import Feedback, QueryRecord

PIPELINE = "python-docs"
QUERIES = 24_000
RUNS = 4
_LONGEST_SLEEP_S = 0.2  # of live traffic between two looks at ``stop``


class TrafficPlan(Struct, frozen=True):
    """Questions and incidents of the demo's day."""

    now: float  # unix seconds: where history ends and live traffic starts
    seed: int
    questions: tuple[KnownQuestion, ...]  # the most popular first, in the past as live
    incidents: Incidents


class LoggedBatch(Struct, frozen=True):
    """Queries and feedback logged in one stretch of time."""

    queries: list[QueryRecord]
    feedback: list[Feedback]


class Situation(Struct, frozen=True):
    """Conditions under which one question is answered."""

    version: str
    index_down: bool
    fail_soft: bool  # whether the client then goes on without chunks


def plan_for(application: Application, *, now: float, seed: int = 0) -> TrafficPlan:
    """The demo's day up to ``now`` (unix seconds), over the questions this Python can answer."""
    questions = list(known(load(), application.chunks))
    popular = Random(f"{seed} popularity")  # noqa: S311  A simulation, no secret.
    by_popularity = popular.sample(questions, len(questions))
    return TrafficPlan(now, seed, tuple(by_popularity), incidents(now))


def history(
    application: Application,
    plan: TrafficPlan,
    *,
    queries: int = QUERIES,
    batch: int = 500,
    days: int = 1,
) -> Iterator[LoggedBatch]:
    """The days before ``plan.now`` in time order, feedback in the batch in which it came.

    Ratings that come after ``plan.now`` are left out. Incidents are on the last day alone.

    Args:
        application: answers the questions.
        plan: questions and incidents.
        queries: number in each day.
        batch: queries in each batch.
        days: number of days.
    """
    log = _Log(_chance(plan, "ratings"))
    rehearsed = _Rehearsed(application, _chance(plan, "runs"))
    rng = _chance(plan, "traffic")
    ends = [plan.now - before * DAY_S for before in reversed(range(days))]
    times = [at for end in ends for at in day(rng, now=end, queries=queries)]
    coming = asks(rng, times, plan.questions)
    while group := list(islice(coming, batch)):
        situations = [situation(plan.incidents, ask) for ask in group]
        records = [
            log.record(ask, rehearsed.run(ask.question, there), there.version, at=ask.at)
            for ask, there in zip(group, situations, strict=True)
        ]
        yield LoggedBatch(records, log.pending.due(group[-1].at))
    yield LoggedBatch([], log.pending.due(plan.now))


def live(
    application: Application,
    plan: TrafficPlan,
    send: Callable[[LoggedBatch], None],
    clock: Clock,
    stop: Event,
    *,
    rate: float = 5.0,
) -> None:
    """Ask and send, at ``rate`` queries a second, until ``stop`` is set.

    Each question is really answered when its time is there; ``send`` gets it at once, with the
    ratings that have come meanwhile.
    """
    log = _Log(_chance(plan, "live ratings"))
    rng = _chance(plan, "live traffic")
    down = application.without_index()
    started = clock.monotonic()
    for ask in asks(rng, steady(rng, start=0.0, rate=rate), plan.questions):
        if not _wait(clock, started + ask.at, stop):
            return
        now = clock.now()
        there = situation(plan.incidents, ask, at=now)
        outcome = _run(down if there.index_down else application, ask.question, there)
        record = log.record(ask, outcome, there.version, at=now)
        send(LoggedBatch([record], log.pending.due(now)))


def situation(what: Incidents, ask: AskedQuestion, *, at: float | None = None) -> Situation:
    """Release and index that answer this user at this time.

    Args:
        what: the incidents of the day.
        ask: the question.
        at: unix seconds; default: the time of ``ask``.
    """
    at = ask.at if at is None else at
    down = what.outage.meets(at, ask.visit.place)
    return Situation(
        version=FAST if what.rollout.meets(at, ask.visit.place) else STABLE,
        index_down=down,
        fail_soft=down and ask.visit.channel != API,
    )


def _chance(plan: TrafficPlan, purpose: str) -> Random:
    """Chance that is the same for the same plan, and independent of that for other purposes."""
    return Random(f"{plan.seed} {plan.now} {purpose}")  # noqa: S311  A simulation, no secret.


def _run(application: Application, question: KnownQuestion, there: Situation) -> ServedQuery:
    return application.ask(question.query, version=there.version, fail_soft=there.fail_soft)


def _wait(clock: Clock, until: float, stop: Event) -> bool:
    """True when the monotonic time ``until`` is there; False when ``stop`` was set before."""
    while not stop.is_set():
        remaining = until - clock.monotonic()
        if remaining <= 0.0:
            return True
        clock.sleep(min(remaining, _LONGEST_SLEEP_S))
    return False


class _Rehearsed:
    """Real runs of each question in each situation, measured when first needed."""

    def __init__(self, application: Application, rng: Random) -> None:
        self._up = application
        self._down = application.without_index()
        self._rng = rng
        self._runs: dict[tuple[str, Situation], list[ServedQuery]] = {}

    def run(self, question: KnownQuestion, there: Situation) -> ServedQuery:
        """One of the measured runs, drawn afresh."""
        key = (question.query, there)
        if key not in self._runs:
            application = self._down if there.index_down else self._up
            self._runs[key] = [_run(application, question, there) for _ in range(RUNS)]
        return self._rng.choice(self._runs[key])


class _Log:
    """Turns what happened into records, and keeps the ratings that come later."""

    def __init__(self, rng: Random) -> None:
        self.pending = PendingFeedback()
        self._rng = rng

    def record(
        self, ask: AskedQuestion, outcome: ServedQuery, version: str, *, at: float
    ) -> QueryRecord:
        """The log line of one question asked at unix second ``at``."""
        rated = opinion(self._rng, ask.question, outcome)
        if rated and not rated.at_once:
            self.pending.add(ask.trace_id, rated.rating, at + rated.delay_s)
        visit, relevant = ask.visit, ask.question.relevant
        return QueryRecord(
            query_id=ask.trace_id,
            timestamp=at,
            pipeline=PIPELINE,
            version=version,
            tags={"tenant": visit.tenant, "channel": visit.channel, "kind": ask.question.kind},
            query=ask.question.query,
            answer=outcome.answer,
            chunks=outcome.chunks,
            citations=outcome.citations,
            latency_ms=outcome.latency_ms,
            feedback=rated.rating if rated and rated.at_once else None,
            relevant_ids=sorted(relevant) if relevant else None,
            error=outcome.error,
            model=outcome.model,
            session_id=visit.session,
            user_id=visit.user,
            trace_id=ask.trace_id,
            environment="demo",
        )
