"""The judges by the settings: those that read answers, and the language model on a sample."""

from collections.abc import Sequence
from functools import partial

import structlog

from ragmon.config import Settings
from ragmon.daemon.component import Component, Context, loops_of
from ragmon.daemon.judging import selection
from ragmon.daemon.judging.anchors import NAME as ANCHORS
from ragmon.daemon.judging.anchors import AnchorPlan, AnchorRounds
from ragmon.daemon.judging.answer_retries import AnswerRetries
from ragmon.daemon.judging.calibration import Calibrations
from ragmon.daemon.judging.judge_queue import JudgeQueue
from ragmon.daemon.judging.on_demand import JudgeRuns
from ragmon.daemon.judging.reading_judge import (
    OnVerdict,
    ReadingJudge,
    custom_plan,
    embedded_plan,
    local_plan,
    watch,
)
from ragmon.daemon.judging.sampled_judge import SampledJudge, SampledJudgeOptions
from ragmon.daemon.judging.selection import TRAFFIC, AnswerFacts, JudgeSelection, sampler_of
from ragmon.daemon.judging.session_turns import SessionTurns
from ragmon.daemon.judging.shared_budget import NAME as BUDGET
from ragmon.daemon.judging.shared_budget import SharedBudget
from ragmon.daemon.otlp import judged
from ragmon.errors import SettingsError
from ragmon.exposition.sampled_judge import JudgeMetrics
from ragmon.judges import llm
from ragmon.judges.budget import BudgetLimits
from ragmon.judges.custom import check as custom
from ragmon.judges.custom.question import CustomQuestion
from ragmon.judges.llm import LlmJudge, anchors
from ragmon.judges.local import options as local
from ragmon.loops import Supervised
from ragmon.quarantine import AnswerRetry
from ragmon.records import QueryRecord, Verdict
from ragmon.sampling import SamplingOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, SAMPLED_JUDGE
from ragmon.sources.otlp.export import Exporter
from ragmon.stats.judged_estimate import Relation
from ragmon.stores.protocols import Remembered


class Judges:
    """All components that judge, started and stopped together."""

    def __init__(self, context: Context, exporter: Exporter | None) -> None:
        """Raises SettingsError when the judge cannot be asked, or not be paid."""
        self._context = context
        self._metrics = JudgeMetrics(context.own)
        self._components: list[Component] = []
        on_verdict = _verdict_listener(context, exporter)
        judge = context.settings.judge
        self.on_demand: JudgeRuns | None = None
        self.sampled: SampledJudging | None = None
        self.has_embedded = judge.grounding.enabled
        again: dict[str, AnswerRetry] = {}  # by name of the judge
        custom.check(judge.custom, has_model=judge.llm is not None)
        if judge.llm is not None:
            sampled = SampledJudging(context, self._metrics, judge.llm, on_verdict)
            self._components.append(sampled)
            self.sampled = sampled
            self.on_demand = sampled.on_demand
            again |= sampled.retries(on_verdict)
        self._reading = self._reading_judges(on_verdict)
        self._components += self._reading
        again |= {each.judge: each.retry for each in self._reading if each.is_judging}
        self.retries = AnswerRetries(context.engine, again, context.settings.privacy.text)
        self._components.append(self.retries)
        of_embedded = (each for each in self._reading if each.judge == EMBEDDED_JUDGE)
        embedded = next(of_embedded, None)
        self.calibrations = (
            Calibrations(judge.unfaithful_below) if embedded is None else embedded.calibrations
        )
        watch(self._reading, context, self._metrics)

    def _reading_judges(self, on_verdict: OnVerdict) -> list[ReadingJudge]:
        """The embedded judge, the local one and functions; one draws for the language model."""
        context, judge = self._context, self._context.settings.judge
        draws = None if self.sampled is None else self.sampled.draws
        judges: list[ReadingJudge] = []
        is_proxy = judge.local is not None and judge.local.proxy
        if judge.grounding.enabled or (draws is not None and not is_proxy):
            judges.append(
                ReadingJudge(
                    context,
                    embedded_plan(judge.grounding),
                    on_verdict,
                    None if is_proxy else draws,
                    is_judging=judge.grounding.enabled,
                    turns=None if is_proxy or self.sampled is None else self.sampled.turns,
                )
            )
        if judge.local is not None:
            local.check(judge.local)
            mine = draws if is_proxy else None
            turns = self.sampled.turns if is_proxy and self.sampled is not None else None
            plan = local_plan(judge.local)
            judges.append(ReadingJudge(context, plan, on_verdict, mine, turns=turns))
        plans = [custom_plan(each) for each in judge.custom if each.kind == "python"]
        return judges + [ReadingJudge(context, plan, on_verdict, None) for plan in plans]

    @property
    def cpu_s(self) -> dict[str, float]:
        """CPU seconds that judging took on this host since the start, by judge."""
        return {judge.judge: judge.cpu_s for judge in self._reading if judge.is_judging}

    @property
    def anchor_drifts(self) -> dict[str, float]:
        """Mean change of the anchors since they were first judged, by judge."""
        rounds = self.sampled.anchor_rounds if self.sampled is not None else None
        return {} if rounds is None else rounds.drifts()

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
        """Kill the processes of the judges that read."""
        for judge in self._reading:
            judge.abort()


class SampledJudging:
    """The language model with its budget, its draws and its schedule."""

    def __init__(
        self, context: Context, metrics: JudgeMetrics, options: llm.Options, on_verdict: OnVerdict
    ) -> None:
        settings = context.settings
        self._context = context
        self.model = options.model or ""
        remembered = context.engine.state.remembered()
        self._remembered = context.engine.thread.bind(remembered)
        answers = context.engine.thread.bind(context.engine.shard.awaited())
        replies = llm.LruCache(options.cache_entries)
        questions = [CustomQuestion(each) for each in settings.judge.custom if each.kind == "llm"]
        self._llm: LlmJudge = llm.build(options, context.clock, replies, questions)
        context.engine.on_erased.append(replies.clear)
        self.budget = SharedBudget(limits_of(settings), context.clock)
        self.budget.load(remembered.load(BUDGET))  # nothing runs yet
        self.turns = SessionTurns(settings.judge.earlier_turns)  # of the judge that draws
        self.draws = self._selection(settings, remembered.load(TRAFFIC))
        self._queue = JudgeQueue(
            answers, self._remembered, context.engine.store.reader, context.engine.writer
        )
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
                earlier=self.turns.earlier,
                custom={each.name: partial(self._llm.judge_custom, each) for each in questions},
            ),
        )
        self._judges = (SAMPLED_JUDGE, *(each.name for each in questions))
        self.on_demand = JudgeRuns(self._queue, self._llm, self.budget, self.judge, context.clock)
        self.anchor_rounds = self._anchors(options, metrics, remembered.load(ANCHORS))
        self._watch(metrics)

    def retries(self, on_verdict: OnVerdict) -> dict[str, AnswerRetry]:
        """Second tries of each judge that asks the model."""
        again = self.judge.judge_again
        return {name: AnswerRetry(partial(again, judge=name), on_verdict) for name in self._judges}

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
            save=lambda name, body: self._remembered.ask(lambda kept: kept.save(name, body)),
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
            forecast_usd=lambda record: self._llm.forecast_usd(self.judge.case_of(record)),
        )

    def _known(self, with_relations: bool) -> AnswerFacts:
        engine, now = self._context.engine, self._context.clock.now()
        columns, longest_s = engine.pipeline.catalogue.columns, max(self._context.settings.windows)

        def read(kept: Remembered) -> dict[str, Relation]:
            kept.save(TRAFFIC, self.draws.traffic)
            return selection.relations(engine.windows, columns, longest_s, now)

        relations = self._remembered.ask(read) if with_relations else {}
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
        SettingsError: the key cannot be read, a limit in dollars has no price to go by, or the
            local judge's model, or a custom judge's prompt or function, is not there.
    """
    limits_of(settings)
    if settings.judge.local is not None:
        local.check(settings.judge.local)
    custom.check(settings.judge.custom, has_model=settings.judge.llm is not None)
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
