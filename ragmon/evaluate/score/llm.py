"""LLM grader: ``ragmon.judges.llm`` over the cases of a run instead of live traffic.

Its settings are those of the daemon, ``judge.llm``. An answer that cannot be judged is counted
with its reason and scored nowhere.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

from msgspec import Struct

from ragmon.clock import Clock
from ragmon.evaluate.cases import Case, Run
from ragmon.evaluate.score import generation
from ragmon.evaluate.score.judge_usage import JudgeUsage, UsageSummary
from ragmon.judges import llm
from ragmon.judges.llm import prompts
from ragmon.judges.llm.options import Mode
from ragmon.judges.llm.preference import Preference
from ragmon.records import Chunk, QueryRecord

NAME = "llm"

_BY_MODE: dict[Mode, tuple[str, ...]] = {
    "claims": ("faithfulness",),
    "rubric": ("answer_relevance", "completeness", "conciseness"),
    "useful_chunks": ("context_precision",),
    "context_recall": ("context_recall",),
}
_LONGEST_WAIT_S = 120.0  # in all, for an endpoint that the circuit breaker pauses
_WAITS = 3
_TRIES = 2  # requests for each reply that the judge's forecast assumes
_LIKELY_SHARE = 0.75  # the forecast takes three characters for a token; most text has four
_REPLY_TOKENS = 200  # of a usual reply

Result = TypeVar("Result")


class LlmGraderOptions(Struct, frozen=True, kw_only=True):
    """Options of the LLM grader."""

    options: llm.Options
    max_cost_usd: float = math.inf  # no request is sent once this is spent
    distractors: int = 0  # irrelevant chunks mixed in for noise sensitivity; 0: not measured
    pool: Sequence[Chunk] = ()  # source of the distractors


class CostForecast(Struct, frozen=True):
    """Likely and highest tokens and cost of judging, with an empty reply cache."""

    answers: int
    tokens: int
    most_tokens: int
    cost_usd: float | None  # None: the model has no price
    most_cost_usd: float | None


class _Endpoint(Protocol):
    def opens_in(self) -> float: ...


class RetryPolicy:
    """Waits while the circuit breaker is open, up to a total shared by all callers."""

    def __init__(self, clock: Clock, longest_wait_s: float = _LONGEST_WAIT_S) -> None:
        self._clock = clock
        self._left_s = longest_wait_s
        self._lock = threading.Lock()

    def ask(
        self, endpoint: _Endpoint, ask: Callable[[], Result | llm.Failure]
    ) -> Result | llm.Failure:
        """The result of ``ask``, called again after a pause of the endpoint."""
        for _ in range(_WAITS):
            result = ask()
            if not isinstance(result, llm.Failure) or result.reason != "circuit_open":
                return result
            wait_s = endpoint.opens_in()
            with self._lock:
                if wait_s > self._left_s:
                    return result
                self._left_s -= wait_s
            self._clock.sleep(wait_s)
        return ask()


class LlmGrader:
    """``AnswerGrader`` by a language model. Close it at the end."""

    name = NAME

    def __init__(
        self, settings: LlmGraderOptions, clock: Clock, cache: llm.Cache | None = None
    ) -> None:
        """Raises SettingsError when the key cannot be read."""
        options = settings.options
        if "modes" not in options.model_fields_set:
            modes = (*options.modes, "context_recall")  # cases have a reference answer
            options = options.model_copy(update={"modes": tuple(dict.fromkeys(modes))})
        replies = llm.LruCache(options.cache_entries) if cache is None else cache
        self.concurrency = options.concurrency
        self.metrics = _metrics(options.modes, noise=settings.distractors > 0)
        self._settings = settings
        self._judge = llm.build(options, clock, replies)
        claims = options.model_copy(update={"modes": ("claims",)})
        self._claims = llm.build(claims, clock, replies)
        self._retry_policy = RetryPolicy(clock)
        self._usage = JudgeUsage(self.name, prompts.VERSION)

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """Scores of one answer; empty without an answer, or when it could not be judged."""
        if not record.answer or record.error is not None:
            return {}
        if self._usage.cost_usd >= self._settings.max_cost_usd:
            self._usage.failed("budget_spent")
            return {}
        judged = judged_answer(case, record)
        result = self._retry_policy.ask(self._judge, lambda: self._judge.judge(judged))
        count_request(self._usage, result)
        if isinstance(result, llm.Failure):
            return {}
        self._usage.judged()
        scores = dict(result.scores)
        used = {claim.chunk for claim in result.claims if claim.chunk is not None}
        if result.useful is not None and result.claims:
            _put(scores, "context_utilization", utilization(result.useful, used))
        if self._settings.distractors and "faithfulness" in scores:
            _put(scores, "noise_sensitivity", self._noise(case, record, scores["faithfulness"]))
        return {name: score for name, score in scores.items() if name in self.metrics}

    def forecast(self, pairs: Sequence[tuple[Case, QueryRecord]]) -> CostForecast:
        """Tokens and cost of judging these answers."""
        answers = [judged_answer(case, record) for case, record in pairs if record.answer]
        judges = [self._judge] + [self._claims] * (self._settings.distractors > 0)
        forecasts = (judge.forecast(answer) for judge in judges for answer in answers)
        tokens = sum(forecasts, llm.TokenUsage())
        return forecast_cost(len(answers), tokens, self._settings.options, self._judge.cost_usd)

    def usage(self) -> UsageSummary:
        """Answers judged and failed, tokens and cost until now."""
        return self._usage.summary()

    def close(self) -> None:
        """Close the connections."""
        self._judge.close()
        self._claims.close()

    def _noise(self, case: Case, record: QueryRecord, clean: float) -> float | None:
        """Share of faithfulness lost when irrelevant chunks stand between the others."""
        chosen = distractors_of(case, record, self._settings.pool, self._settings.distractors)
        if not chosen or clean <= 0.0:
            return None
        noisy = judged_answer(case, record, [(chunk.id, chunk.text or "") for chunk in chosen])
        result = self._retry_policy.ask(self._claims, lambda: self._claims.judge(noisy))
        count_request(self._usage, result)
        if isinstance(result, llm.Failure):
            return None
        score = result.scores.get("faithfulness")
        return None if score is None else generation.noise_sensitivity(clean, score)


def count_request(usage: JudgeUsage, result: llm.Judgement | Preference | llm.Failure) -> None:
    """Add what one request took, and its reason if it failed."""
    usage.add_request(result.model, result.tokens.prompt, result.tokens.completion, result.cost_usd)
    if isinstance(result, llm.Failure):
        usage.failed(result.reason, result.detail)


def judged_answer(
    case: Case, record: QueryRecord, between: Sequence[tuple[str, str]] = ()
) -> llm.JudgedAnswer:
    """A case in the form that the judge takes, with the chunks of ``between`` mixed in."""
    chunks = [(chunk.id, chunk.text) for chunk in record.chunks or () if chunk.text]
    mixed = tuple(chunk for pair in zip_longest(chunks, between) for chunk in pair if chunk)
    return llm.JudgedAnswer(case.query, record.answer or "", mixed, case.ground_truth_answer)


def pool_of(run: Run) -> list[Chunk]:
    """Every chunk with a text that some query of a run retrieved, once each, by id."""
    chunks = (chunk for record in run.values() for chunk in record.chunks or ())
    by_id = {chunk.id: chunk for chunk in chunks if chunk.text}
    return [by_id[key] for key in sorted(by_id)]


def distractors_of(
    case: Case, record: QueryRecord, pool: Sequence[Chunk], count: int
) -> list[Chunk]:
    """Chunks of other questions, spread over the pool; the same ones each time.

    Chunks retrieved for this question, or known to be relevant to it, are left out.
    """
    near = {chunk.id for chunk in record.chunks or ()}
    near |= {key for key, grade in case.judgements.items() if grade > 0}
    others = [chunk for chunk in pool if chunk.id not in near]
    if len(others) <= count:
        return others
    begin = int.from_bytes(case.case_id.encode()[-4:]) % len(others)
    return [others[(begin + at * len(others) // count) % len(others)] for at in range(count)]


def utilization(useful: Sequence[str], used: set[str]) -> float | None:
    """Useful chunks that some claim of the answer rests on, over all useful; None without any."""
    return sum(chunk in used for chunk in useful) / len(useful) if useful else None


def forecast_cost(
    answers: int,
    most: llm.TokenUsage,
    options: llm.Options,
    cost_usd: Callable[[str, llm.TokenUsage], float | None],
) -> CostForecast:
    """Likely and highest cost; the highest counts each request twice, with full-length replies."""
    requests = most.completion // (_TRIES * options.max_tokens)
    likely = llm.TokenUsage(int(most.prompt / _TRIES * _LIKELY_SHARE), requests * _REPLY_TOKENS)
    model = options.model or ""
    return CostForecast(
        answers,
        likely.prompt + likely.completion,
        most.prompt + most.completion,
        cost_usd(model, likely),
        cost_usd(model, most),
    )


def _metrics(modes: Sequence[Mode], *, noise: bool) -> tuple[str, ...]:
    names = [name for mode in modes for name in _BY_MODE[mode]]
    if "rubric" in modes and "claims" not in modes:
        names.append("faithfulness")
    if {"claims", "useful_chunks"} <= set(modes):
        names.append("context_utilization")
    return tuple(names + ["noise_sensitivity"] * (noise and "claims" in modes))


def _put(scores: dict[str, float], name: str, score: float | None) -> None:
    if score is not None:
        scores[name] = score
