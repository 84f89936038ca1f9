"""A judge that reads answers in a process of its own: the embedded one, or a local model.

Both are followed, calibrated, skipped and counted alike; ``ReadingPlan`` says in what they differ.
"""

import sys
from collections.abc import Callable, Sequence

from msgspec import Struct

from ragmon.clock import SystemClock
from ragmon.config.sections import GroundingJudgeSettings
from ragmon.daemon.component import Context
from ragmon.daemon.judging.calibration import NAME as CALIBRATIONS
from ragmon.daemon.judging.calibration import Calibrations, Calibrator
from ragmon.daemon.judging.committed_reader import (
    LOCAL_SOURCE,
    SOURCE,
    CommittedReader,
    custom_source,
)
from ragmon.daemon.judging.grounding_follower import (
    FollowerRole,
    GroundingFollower,
    VerdictHooks,
    no_draws,
)
from ragmon.daemon.judging.grounding_process import GroundingProcess, WorkerLimits
from ragmon.daemon.judging.session_turns import SessionTurns
from ragmon.daemon.judging.skipped import SkippedAnswers, SkippedOptions
from ragmon.exposition.sampled_judge import JudgeMetrics
from ragmon.judges.custom.options import Options as CustomOptions
from ragmon.judges.custom.worker import SET_ASIDE
from ragmon.judges.grounding import load_artefact
from ragmon.judges.local.options import Options as LocalOptions
from ragmon.loops import Supervised
from ragmon.quarantine import AnswerRetry
from ragmon.records import Draw, QueryRecord, Verdict, number_of
from ragmon.signals.evidence import EMBEDDED_JUDGE, LOCAL_JUDGE, SAMPLED_JUDGE

OnVerdict = Callable[[QueryRecord, Verdict], None]
Draws = Callable[[Sequence[QueryRecord], Sequence[Verdict], float], list[Draw]]

_LOADING_S, _DOWNLOADING_S = 300.0, 3_600.0  # gigabytes of weights, from a disk or a network
_ENDING_S = 1.0  # for a function that reached its limit of time
_CUSTOM_BATCH = 8  # answers that a function grades between two verdicts
_LONGEST_BATCH_S, _LONGEST_ANSWER_S = 60.0, 120.0  # a large model on a shared core


class ReadingPlan(Struct, frozen=True, kw_only=True):
    """One judge and how it is run."""

    role: FollowerRole
    source: str  # name under which the store keeps how far it has read
    process: Callable[[], GroundingProcess]  # a new one, which does not run yet
    calibrations: str = ""  # name under which the store keeps them; empty: it has none
    metrics: str = ""  # word for it in the names of its calibration's metrics
    words: str = ""  # for it, in their help
    reads_turns: bool = True  # what was retrieved in the turns before counts


class ReadingJudge:
    """The judge's thread, its calibrations, and second tries of answers that it skipped."""

    def __init__(
        self,
        context: Context,
        plan: ReadingPlan,
        on_verdict: OnVerdict,
        draws: Draws | None,
        *,
        is_judging: bool = True,
        turns: SessionTurns | None = None,
    ) -> None:
        """Make it; nothing runs yet.

        Args:
            context: of the daemon.
            plan: of the judge.
            on_verdict: called once a verdict is durable.
            draws: for the sampled judge; None: another one draws, or none.
            is_judging: False where answers are only drawn.
            turns: to remember conversations in; None: its own.
        """
        self.judge = plan.role.judge
        self.is_judging = is_judging
        self.calibrations = Calibrations(context.settings.judge.unfaithful_below)
        self._context, self._plan = context, plan
        self._process = plan.process() if is_judging else None
        turns = turns or self._conversations()
        context.engine.on_erased.append(turns.clear)
        skipped = SkippedAnswers(
            context.engine,
            SkippedOptions(self.judge, context.settings.privacy.text, turns.earlier),
            context.clock,
            plan.process,
            self.calibrations,
        )
        self.retry = AnswerRetry(skipped.judge_again, on_verdict)
        hooks = VerdictHooks(
            on_verdict=on_verdict,
            draws=draws or no_draws,
            calibrated=self.calibrations,
            on_skip=skipped.keep,
        )
        self.follower = GroundingFollower(
            self._committed(turns),
            context.engine.writer,
            self._process,
            context.clock,
            hooks,
            role=plan.role,
        )
        self._calibrator = self._learning() if is_judging and plan.calibrations else None

    @property
    def loops(self) -> Sequence[Supervised]:
        """Those of the follower."""
        return self.follower.loops

    @property
    def cpu_s(self) -> float:
        """CPU seconds that judging took since the start."""
        return 0.0 if self._process is None else self._process.cpu_s

    def backlog(self) -> float:
        """Records not looked at yet."""
        return self.follower.backlog

    def start(self) -> None:
        """Begin; calibrations are looked at now, and at intervals."""
        if self._calibrator is not None:
            every_s = self._context.settings.judge.calibrate_every
            name = "calibrate" if self.judge == EMBEDDED_JUDGE else f"calibrate-{self.judge}"
            self._context.schedule.every(every_s, name, self._calibrator.step)
        self.follower.start()

    def stop(self) -> None:
        """End."""
        self.follower.stop()

    def abort(self) -> None:
        """Kill the process."""
        self.follower.abort()

    def _conversations(self) -> SessionTurns:
        most = self._context.settings.judge.earlier_turns
        return SessionTurns(most if self._plan.reads_turns else 0)

    def _committed(self, turns: SessionTurns) -> CommittedReader:
        engine, source = self._context.engine, self._plan.source
        shard, thread = engine.shard, engine.thread
        return CommittedReader(
            engine.store.reader,
            newest=lambda: {
                number: number_of(number, position.sequence)
                for number, position in engine.positions.items()
            },
            position=lambda name: thread.ask(lambda: shard.offset(name)),
            cache=engine.record_cache,
            source=source,
            turns=turns,
        )

    def _learning(self) -> Calibrator:
        engine, own, name = self._context.engine, self._context.own, self._plan.calibrations
        remembered = engine.state.remembered()
        bound = engine.thread.bind(remembered)
        self.calibrations.load(remembered.load(name))  # nothing runs yet
        self._watch_calibrations()
        return Calibrator(
            self.calibrations,
            reader=engine.store.reader,
            judge=self._version,
            news=lambda: (
                own.total("ragmon_ingest_records_total", source="label")
                + own.total("ragmon_judged_total", judge=SAMPLED_JUDGE, outcome="scored")
            ),
            save=lambda body: bound.ask(lambda kept: kept.save(name, body)),
            of=self.judge,
        )

    def _version(self) -> str:
        """Of the scores that are to come; empty while it is not known."""
        if self.judge == EMBEDDED_JUDGE:
            return load_artefact().version
        return "" if self._process is None else self._process.version

    def _watch_calibrations(self) -> None:
        own, kept = self._context.own, self.calibrations
        stem = f"ragmon_{self._plan.metrics}_calibration"
        own.watch_each(
            f"{stem}_version",
            f"Version of the calibration by which a pipeline reads {self._plan.words} score.",
            "pipeline",
            lambda: {name: float(one.version) for name, one in kept.in_force.items()},
        )
        own.watch_each(
            f"{stem}_labels",
            "Labels or verdicts that the calibration was fitted to.",
            "pipeline",
            lambda: {name: float(one.examples) for name, one in kept.in_force.items()},
        )
        own.watch_each(
            f"{stem}_refused",
            "1 if the newest calibration was rejected because it does not improve the judge; "
            "the log has the reason.",
            "pipeline",
            lambda: {name: float(bool(one.refused)) for name, one in kept.kept.items()},
        )
        own.watch_each(
            f"ragmon_{self._plan.metrics}_marked_from_ratio",
            f"Least uncalibrated score, {self._plan.words}, of answers marked grounded; no sample "
            "where labels prove nothing.",
            "pipeline",
            lambda: {name: one.marks.floor for name, one in kept.kept.items() if one.marks},
        )


def embedded_plan(settings: GroundingJudgeSettings) -> ReadingPlan:
    """Plan of the embedded judge."""
    return ReadingPlan(
        role=FollowerRole(),
        source=SOURCE,
        process=lambda: GroundingProcess(settings.max_cpu, SystemClock()),
        calibrations=CALIBRATIONS,
        metrics="grounding",
        words="the embedded judge's",
    )


def local_plan(options: LocalOptions) -> ReadingPlan:
    """Plan of a local model."""
    command = [sys.executable, "-m", "ragmon.judges.local.worker", options.model_dump_json()]
    limits = WorkerLimits(
        _DOWNLOADING_S if options.allow_download else _LOADING_S,
        _LONGEST_BATCH_S,
        _LONGEST_ANSWER_S,
    )
    return ReadingPlan(
        role=FollowerRole(
            judge=LOCAL_JUDGE, loop="local-judge", batch=options.batch, first_rate=1.0
        ),
        source=LOCAL_SOURCE,
        process=lambda: GroundingProcess(
            options.max_cpu, SystemClock(), command=command, limits=limits
        ),
        calibrations=f"{CALIBRATIONS}.local",
        metrics="local",
        words="the local judge's",
    )


def custom_plan(options: CustomOptions) -> ReadingPlan:
    """Plan of a Python function of the operator's."""
    command = [sys.executable, "-m", "ragmon.judges.custom.worker", options.model_dump_json()]
    limits = WorkerLimits(answer_s=options.timeout_s + _ENDING_S)
    return ReadingPlan(
        role=FollowerRole(
            judge=options.name,
            loop=f"judge-{options.name}",
            batch=_CUSTOM_BATCH,
            first_rate=10.0,
            set_aside=SET_ASIDE,
        ),
        source=custom_source(options.name),
        reads_turns=False,
        process=lambda: GroundingProcess(
            options.max_cpu, SystemClock(), command=command, limits=limits
        ),
    )


def watch(judges: Sequence[ReadingJudge], context: Context, metrics: JudgeMetrics) -> None:
    """Metrics of all of them."""
    for judge in judges:
        metrics.watch_queue(judge.judge, judge.backlog)
    context.own.watch_labelled(
        "ragmon_judge_restarts",
        "Times that a judge's process was started again because it ended or hung; "
        "answers that it cannot read count in ragmon_judged_total as judge_hung or judge_crashed.",
        ("judge",),
        lambda: {(judge.judge,): float(judge.follower.restarts) for judge in judges},
    )
    context.own.watch_labelled(
        "ragmon_judge_cpu_seconds",
        "CPU that a judge's process spent on reading answers; divided by ragmon_judged_total it is "
        "the cost of one. At the limit, judge.grounding.max_cpu, judge.local.max_cpu or that of "
        "judge.custom, only a sample of the answers is read.",
        ("judge",),
        lambda: {(judge.judge,): judge.cpu_s for judge in judges},
    )
