"""Reports on the judges of a running engine."""

import asyncio
import math

from ragmon.config import Settings
from ragmon.daemon.component import Context
from ragmon.daemon.judging.build import Judges
from ragmon.daemon.read_deadline import read_deadline
from ragmon.exposition.own import OwnMetrics
from ragmon.judge_reports.findings import JudgeFacts, ReportScope, cost_of, report_of
from ragmon.judge_reports.gathering import JudgedAnswers
from ragmon.judge_reports.report import JudgeCost, JudgeKind, JudgeReport
from ragmon.memory import MemoryBudget
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.judged import gather
from ragmon.signals.evidence import BELIEVED, EMBEDDED_JUDGE, LOCAL_JUDGE, SAMPLED_JUDGE
from ragmon.web.judge_reports import JudgeReportQuery

_HINT = "Ask for less: a later since, or one pipeline; or raise limits.query_timeout"
_KINDS: dict[str, JudgeKind] = {
    SAMPLED_JUDGE: "llm",
    LOCAL_JUDGE: "local",
    EMBEDDED_JUDGE: "embedded",
}


class LiveJudgeReports:
    """Implements ``ragmon.web.judge_reports.JudgeReportSource``; one report at a time is made."""

    def __init__(self, context: Context, judges: Judges, memory: MemoryBudget) -> None:
        self._context = context
        self._judges = judges
        self._memory = memory
        self._turn = asyncio.Lock()

    def now(self) -> float:
        """Unix seconds."""
        return self._context.clock.now()

    async def report(self, query: JudgeReportQuery) -> JudgeReport:
        """The report, over the pipelines that may be read.

        Raises:
            ReadTimeoutError: it takes longer than ``limits.query_timeout``.
            MemoryLimitError: it does not fit into ``limits.memory``.
        """
        async with self._turn:
            return await asyncio.to_thread(self._report, query)

    def _report(self, query: JudgeReportQuery) -> JudgeReport:
        context, settings, now = self._context, self._context.settings, self.now()
        check = read_deadline(context.clock, settings.limits.query_timeout, _HINT)
        until = query.until if math.isfinite(query.until) else now + settings.max_clock_skew
        running, answers = judges_of(settings), JudgedAnswers()
        asked = QueryFilter(query.since, until, query.pipeline, (), 0, readable=query.readable)
        with self._memory.open() as memory, context.engine.store.reader() as reader:

            def step() -> None:
                check()
                memory.take(max(0, answers.size_bytes - memory.size))

            gather(reader, asked, answers, step)
        cpu_s = self._judges.cpu_s
        facts = [
            JudgeFacts(
                name,
                _KINDS.get(name, "custom"),
                measured_cost(context.own, name, cpu_s.get(name)),
                self._judges.anchor_drifts.get(name),
            )
            for name in (*running, *(name for name in answers.judges if name not in running))
        ]
        scope = ReportScope(query.since, min(until, now), query.pipeline, query.limit)
        return report_of(answers, facts, scope)


def judges_of(settings: Settings) -> list[str]:
    """Judges that these settings run, the one that is believed most first."""
    judge = settings.judge
    runs = {
        SAMPLED_JUDGE: judge.llm is not None,
        LOCAL_JUDGE: judge.local is not None,
        EMBEDDED_JUDGE: judge.grounding.enabled,
    }
    return [*(name for name in BELIEVED if runs[name]), *(one.name for one in judge.custom)]


def measured_cost(own: OwnMetrics, judge: str, cpu_s: float | None) -> JudgeCost | None:
    """Cost of a judge as its counters have it."""

    def totals(name: str) -> dict[str, float]:
        every = own.totals(f"ragmon_{name}_total")
        return {labels[-1]: value for labels, value in every.items() if labels[0] == judge}

    dollars = totals("judge_cost_dollars")
    return cost_of(
        sum(totals("judged").values()),
        dollars=dollars.get(judge),
        tokens=totals("judge_tokens"),
        cpu_s=cpu_s,
    )
