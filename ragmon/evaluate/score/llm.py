"""A language model as judge of a run: ``ragmon.judges.llm`` over cases instead of traffic.

The same settings as the daemon's, ``judge.llm``. An answer that cannot be judged is counted with
its reason and scored nowhere.
"""

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Protocol, TypeVar

from msgspec import Struct

from ragmon.clock import Clock
from ragmon.evaluate.cases import Case, Run
from ragmon.evaluate.compare.preference import Choice, Duel, Shown
from ragmon.evaluate.score import generation
from ragmon.evaluate.score.judge_usage import JudgeUsage, UsageSummary
from ragmon.judges import llm
from ragmon.judges.llm import prompts
from ragmon.judges.llm.options import Mode
from ragmon.judges.llm.preference import AnswerPair, Preference
from ragmon.judges.llm.preference import build as build_pairs
from ragmon.records import Chunk, QueryRecord

NAME = "llm"

_BY_MODE: dict[Mode, tuple[str, ...]] = {
    "claims": ("faithfulness",),
    "rubric": ("answer_relevance", "completeness", "conciseness"),
    "useful_chunks": ("context_precision",),
    "context_recall": ("context_recall",),
}
_PATIENCE_S = 120.0  # spent in all on waiting for an endpoint that pauses
_WAITS = 3
_TRIES = 2  # that the judge's own forecast counts on
_CAUTION = 0.75  # it takes three characters for a token; most text has four
_REPLY_TOKENS = 200

Got = TypeVar("Got")


class Setup(Struct, frozen=True, kw_only=True):
    """How to judge a run."""

    options: llm.Options
    max_cost_usd: float = math.inf  # beyond it nothing more is asked
    distractors: int = 0  # irrelevant chunks mixed in for noise sensitivity; 0: not asked
    pool: Sequence[Chunk] = ()  # where they are taken from


class CostForecast(Struct, frozen=True):
    """What judging is likely to take, and the most it can, when no reply is remembered yet."""

    answers: int
    tokens: int
    most_tokens: int
    cost_usd: float | None  # None: the model has no price
    most_cost_usd: float | None


class _Paused(Protocol):
    def opens_in(self) -> float: ...


class RetryPolicy:
    """Waits while the endpoint pauses, but not for ever: all callers share the time."""

    def __init__(self, clock: Clock, seconds: float = _PATIENCE_S) -> None:
        self._clock = clock
        self._left = seconds
        self._lock = threading.Lock()

    def ask(self, endpoint: _Paused, ask: Callable[[], Got | llm.Failure]) -> Got | llm.Failure:
        """The answer, asked for again after a pause of the endpoint."""
        for _ in range(_WAITS):
            got = ask()
            if not isinstance(got, llm.Failure) or got.reason != "circuit_open":
                return got
            wait_s = endpoint.opens_in()
            with self._lock:
                if wait_s > self._left:
                    return got
                self._left -= wait_s
            self._clock.sleep(wait_s)
        return ask()


class LanguageModel:
    """Implements ``Judge``."""

    name = NAME

    def __init__(self, setup: Setup, clock: Clock, cache: llm.Cache | None = None) -> None:
        """Raises SettingsError when the key cannot be read."""
        options = setup.options
        if "modes" not in options.model_fields_set:
            modes = (*options.modes, "context_recall")  # cases know the true answer, traffic not
            options = options.model_copy(update={"modes": tuple(dict.fromkeys(modes))})
        kept = llm.LruCache(options.cache_entries) if cache is None else cache
        self.concurrency = options.concurrency
        self.metrics = _metrics(options.modes, noise=setup.distractors > 0)
        self._setup = setup
        self._judge = llm.build(options, clock, kept)
        claims = options.model_copy(update={"modes": ("claims",)})
        self._claims = llm.build(claims, clock, kept)
        self._patience = RetryPolicy(clock)
        self._ledger = JudgeUsage(self.name, prompts.VERSION)

    def grade(self, case: Case, record: QueryRecord) -> Mapping[str, float]:
        """What the model can say of one answer; nothing when there is none."""
        if not record.answer or record.error is not None:
            return {}
        if self._ledger.cost_usd >= self._setup.max_cost_usd:
            self._ledger.failed("budget_spent")
            return {}
        asked = as_asked(case, record)
        got = self._patience.ask(self._judge, lambda: self._judge.judge(asked))
        self._ledger.spent(got.model, got.tokens.prompt, got.tokens.completion, got.cost_usd)
        if isinstance(got, llm.Failure):
            self._ledger.failed(got.reason, got.detail)
            return {}
        self._ledger.judged()
        scores = dict(got.scores)
        used = {claim.chunk for claim in got.claims if claim.chunk is not None}
        if got.useful is not None and got.claims:
            _put(scores, "context_utilization", utilization(got.useful, used))
        if self._setup.distractors and "faithfulness" in scores:
            _put(scores, "noise_sensitivity", self._noise(case, record, scores["faithfulness"]))
        return {name: score for name, score in scores.items() if name in self.metrics}

    def forecast(self, pairs: Sequence[tuple[Case, QueryRecord]]) -> CostForecast:
        """What judging these answers can take at most."""
        asked = [as_asked(case, record) for case, record in pairs if record.answer]
        judges = [self._judge] + [self._claims] * (self._setup.distractors > 0)
        tokens = sum((judge.forecast(each) for judge in judges for each in asked), llm.TokenUsage())
        return _forecast(len(asked), tokens, self._setup.options, self._judge.cost_usd)

    def account(self) -> UsageSummary:
        """What it took until now."""
        return self._ledger.account()

    def close(self) -> None:
        """Close the connections."""
        self._judge.close()
        self._claims.close()

    def _noise(self, case: Case, record: QueryRecord, clean: float) -> float | None:
        """What faithfulness loses when irrelevant chunks stand between the others."""
        chosen = foreign(case, record, self._setup.pool, self._setup.distractors)
        if not chosen or clean <= 0.0:
            return None
        noisy = as_asked(case, record, [(each.id, each.text or "") for each in chosen])
        got = self._patience.ask(self._claims, lambda: self._claims.judge(noisy))
        self._ledger.spent(got.model, got.tokens.prompt, got.tokens.completion, got.cost_usd)
        if isinstance(got, llm.Failure):
            self._ledger.failed(got.reason, got.detail)
            return None
        score = got.scores.get("faithfulness")
        return None if score is None else generation.noise_sensitivity(clean, score)


class Arbiter:
    """Implements ``Preferrer``."""

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
        self._judge = build_pairs(options, clock, cache)
        self._patience = RetryPolicy(clock)
        self._ledger = JudgeUsage(self.name, prompts.VERSION)

    def prefer(self, shown: Shown) -> Choice | None:
        """Which is better; None when it cannot say."""
        if self._ledger.cost_usd >= self._max_cost_usd:
            self._ledger.failed("budget_spent")
            return None
        pair = AnswerPair(*shown)
        got = self._patience.ask(self._judge, lambda: self._judge.prefer(pair))
        self._ledger.spent(got.model, got.tokens.prompt, got.tokens.completion, got.cost_usd)
        if isinstance(got, Preference):
            self._ledger.judged()
            return got.choice
        self._ledger.failed(got.reason, got.detail)
        return None

    def forecast(self, duels: Sequence[Duel]) -> CostForecast:
        """What comparing these can take at most."""
        pairs = [AnswerPair(each.query, each.old, each.new, each.reference) for each in duels]
        tokens = sum((self._judge.forecast(each) for each in pairs), llm.TokenUsage())
        both = llm.TokenUsage(2 * tokens.prompt, 2 * tokens.completion)
        return _forecast(len(pairs), both, self._options, self._judge.cost_usd)

    def account(self) -> UsageSummary:
        """What it took until now."""
        return self._ledger.account()

    def close(self) -> None:
        """Close the connections."""
        self._judge.close()


def as_asked(
    case: Case, record: QueryRecord, between: Sequence[tuple[str, str]] = ()
) -> llm.JudgedAnswer:
    """A case as the judge takes it, with other chunks mixed in where there are some."""
    chunks = [(each.id, each.text) for each in record.chunks or () if each.text]
    mixed = tuple(each for pair in zip_longest(chunks, between) for each in pair if each)
    return llm.JudgedAnswer(case.query, record.answer or "", mixed, case.ground_truth_answer)


def pool_of(run: Run) -> list[Chunk]:
    """Every chunk with a text that some query of a run retrieved, once each, by id."""
    found = {chunk.id: chunk for each in run.values() for chunk in each.chunks or () if chunk.text}
    return [found[key] for key in sorted(found)]


def foreign(case: Case, record: QueryRecord, pool: Sequence[Chunk], count: int) -> list[Chunk]:
    """Chunks of other questions, spread over the pool; the same ones each time.

    What was retrieved for this question, or is known to be relevant to it, is no distraction.
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
    return sum(each in used for each in useful) / len(useful) if useful else None


def _forecast(
    answers: int,
    most: llm.TokenUsage,
    options: llm.Options,
    cost_usd: Callable[[str, llm.TokenUsage], float | None],
) -> CostForecast:
    """Of what is at most needed: that counts each request twice, and replies of full length."""
    requests = most.completion // (_TRIES * options.max_tokens)
    likely = llm.TokenUsage(int(most.prompt / _TRIES * _CAUTION), requests * _REPLY_TOKENS)
    model = options.model or ""
    return CostForecast(
        answers,
        likely.prompt + likely.completion,
        most.prompt + most.completion,
        cost_usd(model, likely),
        cost_usd(model, most),
    )


def _metrics(modes: Sequence[Mode], *, noise: bool) -> tuple[str, ...]:
    found = [name for mode in modes for name in _BY_MODE[mode]]
    if "rubric" in modes and "claims" not in modes:
        found.append("faithfulness")
    if {"claims", "useful_chunks"} <= set(modes):
        found.append("context_utilization")
    return tuple(found + ["noise_sensitivity"] * (noise and "claims" in modes))


def _put(scores: dict[str, float], name: str, score: float | None) -> None:
    if score is not None:
        scores[name] = score
