"""The judges by the settings: the embedded one, and the language model on a sample."""

from collections.abc import Callable, Sequence

import structlog

from ragmon.clock import SystemClock
from ragmon.config import Settings
from ragmon.daemon.component import Component, Context, loops_of
from ragmon.daemon.judging import grounding_follower, selection
from ragmon.daemon.judging.anchors import NAME as ANCHORS
from ragmon.daemon.judging.anchors import AnchorPlan, AnchorRounds
from ragmon.daemon.judging.calibration import NAME as CALIBRATIONS
from ragmon.daemon.judging.calibration import Calibrations, Calibrator
from ragmon.daemon.judging.committed_reader import SOURCE, CommittedReader
from ragmon.daemon.judging.grounding_process import GroundingProcess
from ragmon.daemon.judging.judge_queue import JudgeQueue
from ragmon.daemon.judging.on_demand import JudgeRuns
from ragmon.daemon.judging.sampled_judge import SampledJudge, SampledJudgeOptions
from ragmon.daemon.judging.selection import TRAFFIC, AnswerFacts, JudgeSelection, sampler_of
from ragmon.daemon.judging.shared_budget import NAME as BUDGET
from ragmon.daemon.judging.shared_budget import SharedBudget
from ragmon.daemon.judging.skipped import SkippedAnswers
from ragmon.daemon.judging.verdicts import case_of
from ragmon.daemon.otlp import judged
from ragmon.errors import SettingsError
from ragmon.exposition.sampled_judge import JudgeMetrics
from ragmon.judges import llm
from ragmon.judges.budget import BudgetLimits
from ragmon.judges.grounding import load_artefact
from ragmon.judges.llm import LlmJudge, anchors
from ragmon.loops import Supervised
from ragmon.quarantine import AnswerRetry
from ragmon.records import QueryRecord, Verdict
from ragmon.sampling import SamplingOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, SAMPLED_JUDGE
from ragmon.sources.otlp.export import Exporter
from ragmon.stats.judged_estimate import Relation
from ragmon.stores.protocols import JudgeStore

OnVerdict = Callable[[QueryRecord, Verdict], None]


class Judges:
    """All components that judge, started and stopped together."""

    def __init__(self, context: Context, exporter: Exporter | None) -> None:
        """Raises SettingsError when the judge cannot be asked, or not be paid."""
        self._context = context
        self._metrics = JudgeMetrics(context.own)
        self._components: list[Component] = []
        on_verdict = _verdict_listener(context, exporter)
        draws = None
        self.on_demand: JudgeRuns | None = None
        self.sampled: SampledJudging | None = None
        self.has_embedded = context.settings.judge.grounding.enabled
        self.retries: dict[str, AnswerRetry] = {}  # by name of the judge
        if context.settings.judge.llm is not None:
            sampled = SampledJudging(context, self._metrics, context.settings.judge.llm, on_verdict)
            self._components.append(sampled)
            self.sampled = sampled
            draws = sampled.draws
            self.on_demand = sampled.on_demand
            self.retries[SAMPLED_JUDGE] = AnswerRetry(sampled.judge.judge_again, on_verdict)
        reading = Calibrations(context.settings.judge.unfaithful_below)
        self.calibrations = reading
        if context.settings.judge.grounding.enabled:
            self._components.append(LearningComponent(context, reading))
        skipped = SkippedAnswers(
            context.engine,
            context.clock,
            lambda: GroundingProcess(context.settings.judge.grounding.max_cpu, SystemClock()),
            reading,
        )
        if context.settings.judge.grounding.enabled:
            self.retries[EMBEDDED_JUDGE] = AnswerRetry(skipped.judge_again, on_verdict)
        if context.settings.judge.grounding.enabled or draws is not None:
            hooks = grounding_follower.VerdictHooks(
                on_verdict=on_verdict,
                draws=draws or grounding_follower.no_draws,
                calibrated=reading,
                on_skip=skipped.keep,
            )
            self._components.append(_follower(context, self._metrics, hooks))

    @property
    def loops(self) -> Sequence[Supervised]:
        """Those of all its components."""
        return [loop for each in self._components for loop in loops_of(each)]

    def start(self) -> None:
        """Begin."""
        for component in self._components:
            component.start()

    def stop(self) -> None:
        """End, the follower first."""
        for component in reversed(self._components):
            component.stop()

    def abort(self) -> None:
        """Kill the embedded judge's process."""
        for component in self._components:
            if isinstance(component, grounding_follower.GroundingFollower):
                component.abort()


class SampledJudging:
    """The language model with its budget, its draws and its schedule."""

    def __init__(
        self, context: Context, metrics: JudgeMetrics, options: llm.Options, on_verdict: OnVerdict
    ) -> None:
        settings = context.settings
        self._context = context
        self.model = options.model or ""
        store = context.engine.store.judging()
        self._store = context.engine.thread.bind(store)
        replies = llm.LruCache(options.cache_entries)
        self._llm: LlmJudge = llm.build(options, context.clock, replies)
        context.engine.on_erased.append(replies.clear)
        self.budget = SharedBudget(limits_of(settings), context.clock)
        self.budget.load(store.remembered(BUDGET))  # nothing runs yet
        self.draws = self._selection(settings, store.remembered(TRAFFIC))
        self._queue = JudgeQueue(self._store, context.engine.store.reader, context.engine.writer)
        self.judge = SampledJudge(
            self._llm,
            self._queue,
            self.budget,
            context.clock,
            metrics,
            options=SampledJudgeOptions(
                max_age_s=settings.judge.max_age,
                threads=options.concurrency,
                on_verdict=on_verdict,
                text=settings.privacy.text,
            ),
        )
        self.on_demand = JudgeRuns(self._queue, self._llm, self.budget, self.judge, context.clock)
        self.anchor_rounds = self._anchors(options, metrics, store.remembered(ANCHORS))
        self._watch(metrics)

    @property
    def loops(self) -> Sequence[Supervised]:
        """Those that ask the model."""
        return [*self.judge.loops, *(self.anchor_rounds.loops if self.anchor_rounds else ())]

    def start(self) -> None:
        """Begin."""
        self.judge.start()
        self._context.schedule.every(
            self._context.settings.judge.every, "judge", self.judge.dispatch
        )
        if self.anchor_rounds is not None:
            self.anchor_rounds.start()

    def stop(self) -> None:
        """End, without waiting for requests under way."""
        if self.anchor_rounds is not None:
            self.anchor_rounds.stop()
        self.judge.stop()
        self._llm.close()

    def _anchors(
        self, options: llm.Options, metrics: JudgeMetrics, remembered: bytes | None
    ) -> AnchorRounds | None:
        judge = self._context.settings.judge
        if judge.anchors is None:
            return None
        forgetful = options.model_copy(update={"cache_entries": 0})
        rounds = AnchorRounds(
            AnchorPlan(
                anchors=tuple(anchors.read(judge.anchors)),
                every_s=judge.anchors_every,
                model=options.model or "",
            ),
            llm.build(forgetful, self._context.clock),
            self.budget,
            self._context.clock,
            metrics,
            save=lambda name, body: self._store.ask(lambda store: store.remember(name, body)),
        )
        rounds.load(remembered)
        own = self._context.own
        own.watch_each(
            "ragmon_judge_anchor_score",
            "Mean faithfulness of the anchors, when they were last judged.",
            "judge",
            rounds.scores,
        )
        own.watch_each(
            "ragmon_judge_anchor_drift",
            "Mean change of the anchors' faithfulness since they were first judged.",
            "judge",
            rounds.drifts,
        )
        return rounds

    def _selection(self, settings: Settings, traffic: bytes | None) -> JudgeSelection:
        sampling = settings.sampling
        options = SamplingOptions(least=sampling.least, slice_per_day=sampling.slice_per_day)
        return JudgeSelection(
            sampler_of(options, traffic),
            self.budget,
            self._context.clock,
            slices=settings.slices,
            known=self._known,
            forecast_usd=lambda record: self._llm.forecast_usd(case_of(record)),
        )

    def _known(self, with_relations: bool) -> AnswerFacts:
        engine, now = self._context.engine, self._context.clock.now()
        columns, longest_s = engine.pipeline.catalogue.columns, max(self._context.settings.windows)

        def read(store: JudgeStore) -> dict[str, Relation]:
            store.remember(TRAFFIC, self.draws.traffic)
            return selection.relations(engine.windows, columns, longest_s, now)

        relations = self._store.ask(read) if with_relations else {}
        return AnswerFacts(self._queue.count(), relations)

    def _watch(self, metrics: JudgeMetrics) -> None:
        metrics.watch_queue(SAMPLED_JUDGE, lambda: self._queue.length)
        metrics.watch(
            "ragmon_judge_budget_remaining_ratio",
            "Share left of the tightest limit on judgements or dollars; at 0 judging pauses.",
            SAMPLED_JUDGE,
            self.budget.remaining_ratio,
        )
        metrics.watch(
            "ragmon_judge_breaker_open",
            "1 while judging is paused because the endpoint failed; tried again after "
            "judge.llm.breaker_s.",
            SAMPLED_JUDGE,
            lambda: float(self._llm.opens_in() > 0),
        )


class LearningComponent:
    """The calibrations, kept in the store."""

    def __init__(self, context: Context, calibrations: Calibrations) -> None:
        self._schedule, self._every_s = context.schedule, context.settings.judge.calibrate_every
        store, own = context.engine.store.judging(), context.own
        bound = context.engine.thread.bind(store)
        calibrations.load(store.remembered(CALIBRATIONS))  # nothing runs yet
        self._calibrator = Calibrator(
            calibrations,
            reader=context.engine.store.reader,
            judge=load_artefact().version,
            news=lambda: (
                own.total("ragmon_ingest_records_total", source="label")
                + own.total("ragmon_judged_total", judge=SAMPLED_JUDGE, outcome="scored")
            ),
            save=lambda body: bound.ask(lambda store: store.remember(CALIBRATIONS, body)),
        )
        own.watch_each(
            "ragmon_grounding_calibration_version",
            "Version of the calibration by which a pipeline reads the embedded judge's score.",
            "pipeline",
            lambda: {name: float(kept.version) for name, kept in calibrations.in_force.items()},
        )
        own.watch_each(
            "ragmon_grounding_calibration_labels",
            "Labels or verdicts that the calibration was fitted to.",
            "pipeline",
            lambda: {name: float(kept.examples) for name, kept in calibrations.in_force.items()},
        )
        own.watch_each(
            "ragmon_grounding_calibration_refused",
            "1 if the newest calibration was rejected because it does not improve the judge; "
            "the log has the reason.",
            "pipeline",
            lambda: {name: float(bool(kept.refused)) for name, kept in calibrations.kept.items()},
        )

    def start(self) -> None:
        """Look now, and at intervals."""
        self._schedule.every(self._every_s, "calibrate", self._calibrator.step)

    def stop(self) -> None:
        """Nothing runs but what the schedule runs."""


def limits_of(settings: Settings) -> BudgetLimits:
    """The budget; a limit in dollars needs the model's price.

    Raises:
        SettingsError: one was asked for, and there is none.
    """
    sampling, options = settings.sampling, settings.judge.llm
    asked = sampling.model_fields_set & {"dollars_per_hour", "dollars_per_day"}
    asked = {name for name in asked if getattr(sampling, name) is not None}
    is_priced = options is not None and options.model in options.prices
    if options is not None and asked and not is_priced:
        model = options.model or "MODEL"
        raise SettingsError(
            f"sampling.{min(asked)} is set, but judge.llm.prices has no price for "
            + (f"{model!r}" if options.model else "the model, which judge.llm.model does not name"),
            hint=f"Set judge.llm.prices: {{{model}: {{prompt: 0.15, completion: 0.60}}}} in "
            f"dollars for a million tokens, or sampling.{min(asked)}: null",
        )
    return BudgetLimits(
        judgements_per_hour=sampling.judgements_per_hour,
        judgements_per_day=sampling.judgements_per_day,
        dollars_per_hour=sampling.dollars_per_hour if is_priced else None,
        dollars_per_day=sampling.dollars_per_day if is_priced else None,
    )


def check_judges(settings: Settings) -> None:
    """Refuse what ``serve`` would refuse.

    Raises:
        SettingsError: the key cannot be read, or a limit in dollars has no price to go by.
    """
    limits_of(settings)
    if settings.judge.anchors is not None:
        anchors.read(settings.judge.anchors)
    if settings.judge.llm is not None:
        settings.judge.llm.key()


def _verdict_listener(context: Context, exporter: Exporter | None) -> OnVerdict:
    log = structlog.get_logger("judges")

    def on_verdict(record: QueryRecord, verdict: Verdict) -> None:
        scored = "no_claims" if verdict.score is None else "scored"
        context.own.judged(verdict.judge, verdict.reason or scored)
        if verdict.failed and verdict.judge == SAMPLED_JUDGE:
            log.info("not_judged", query_id=verdict.query_id, reason=verdict.reason)
        if exporter is not None and (shown := judged(record, verdict)) is not None:
            exporter.submit(shown)

    return on_verdict


def _follower(
    context: Context,
    metrics: JudgeMetrics,
    hooks: grounding_follower.VerdictHooks,
) -> grounding_follower.GroundingFollower:
    judge = context.settings.judge.grounding
    store, thread = context.engine.store, context.engine.thread
    committed = CommittedReader(
        store.reader,
        newest=lambda: store.next_sequence,
        position=lambda: thread.ask(lambda: store.offset(SOURCE)),
        cache=context.engine.record_cache,
    )
    follower = grounding_follower.GroundingFollower(
        committed,
        context.engine.writer,
        GroundingProcess(judge.max_cpu, SystemClock()) if judge.enabled else None,
        context.clock,
        hooks,
    )
    metrics.watch_queue(EMBEDDED_JUDGE, lambda: follower.backlog)
    context.own.watch_total(
        "ragmon_judge_restarts",
        "Times that the embedded judge's process was started again because it ended or hung; "
        "answers that it cannot read count in ragmon_judged_total as judge_hung or judge_crashed.",
        lambda: follower.restarts,
    )
    return follower
