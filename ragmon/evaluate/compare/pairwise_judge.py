"""LLM judge of answer pairs: implements ``PreferenceJudge`` for a comparison."""

import math
from collections.abc import Sequence

from ragmon.clock import Clock
from ragmon.evaluate.compare.preference import CandidatePair, Choice, OrderedPair
from ragmon.evaluate.score.judge_usage import JudgeUsage, UsageSummary
from ragmon.evaluate.score.llm import (
    NAME,
    CostForecast,
    RetryPolicy,
    count_request,
    forecast_cost,
)
from ragmon.judges import llm
from ragmon.judges.llm import prompts
from ragmon.judges.llm.preference import AnswerPair, build


class PairwiseJudge:
    """Compares two answers in the order given. Thread-safe; close it at the end."""

    name = NAME

    def __init__(
        self,
        options: llm.Options,
        clock: Clock,
        cache: llm.Cache | None = None,
        max_cost_usd: float = math.inf,
    ) -> None:
        """Raises SettingsError when the key cannot be read."""
        self.concurrency = options.concurrency
        self._options = options
        self._max_cost_usd = max_cost_usd
        self._judge = build(options, clock, cache)
        self._retry_policy = RetryPolicy(clock)
        self._usage = JudgeUsage(self.name, prompts.VERSION)

    def prefer(self, pair: OrderedPair) -> Choice | None:
        """The better answer; None when it could not be judged, or ``max_cost_usd`` is spent."""
        if self._usage.cost_usd >= self._max_cost_usd:
            self._usage.failed("budget_spent")
            return None
        answers = AnswerPair(*pair)
        result = self._retry_policy.ask(self._judge, lambda: self._judge.prefer(answers))
        count_request(self._usage, result)
        if isinstance(result, llm.Failure):
            return None
        self._usage.judged()
        return result.choice

    def forecast(self, pairs: Sequence[CandidatePair]) -> CostForecast:
        """Tokens and cost of comparing these pairs, each in both orders."""
        answers = [AnswerPair(pair.query, pair.old, pair.new, pair.reference) for pair in pairs]
        tokens = sum((self._judge.forecast(pair) for pair in answers), llm.TokenUsage())
        both = llm.TokenUsage(2 * tokens.prompt, 2 * tokens.completion)
        return forecast_cost(len(answers), both, self._options, self._judge.cost_usd)

    def usage(self) -> UsageSummary:
        """Pairs judged and failed, tokens and cost until now."""
        return self._usage.summary()

    def close(self) -> None:
        """Close the connections."""
        self._judge.close()
