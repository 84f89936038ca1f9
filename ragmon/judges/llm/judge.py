"""LLM judge: an answer in, a judgement or a failure out."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ragmon.clock import Clock
from ragmon.judges.llm import claims, grades, prompts
from ragmon.judges.llm.cache import Cache, LruCache
from ragmon.judges.llm.endpoint import LlmEndpoint
from ragmon.judges.llm.errors import JudgeError
from ragmon.judges.llm.options import Options
from ragmon.judges.llm.question import Conversation
from ragmon.judges.llm.verdict import (
    Claim,
    CustomReply,
    Failure,
    JudgedAnswer,
    Judgement,
    TokenUsage,
)

_CHARACTERS_A_TOKEN = 3  # cautiously: most text has four
_PROMPT_CHARACTERS = 3_000  # of the instructions of one request
_TRIES = 2


class _Findings(Struct):
    """Results of the modes that have run so far."""

    scores: dict[str, float]
    useful: tuple[str, ...] | None = None
    claims: tuple[Claim, ...] = ()
    rationale: str = ""
    version: str = prompts.VERSION  # of the prompt


class ExtraQuestion(Protocol):
    """A question of somebody's own."""

    @property
    def name(self) -> str:
        """Of the judge that asks it."""
        ...

    def ask(self, conversation: Conversation, case: JudgedAnswer) -> CustomReply:
        """The model's opinion; raises JudgeError where there is none."""
        ...


class LlmJudge:
    """Judges answers one by one; thread-safe. Close it at the end."""

    def __init__(
        self,
        options: Options,
        endpoint: LlmEndpoint,
        cache: Cache,
        questions: Sequence[ExtraQuestion] = (),
    ) -> None:
        """``questions`` count in the forecast; ``judge_custom`` asks them."""
        self.questions = tuple(questions)
        self._options = options
        self._endpoint = endpoint
        self._cache = cache

    def judge(self, case: JudgedAnswer) -> Judgement | Failure:
        """Judge one answer by all modes; the first that fails ends it.

        Replies before the failure stay in the cache, so that judging again is cheaper.
        """
        case = claims.fitting(case, self._options.max_characters)
        return self._judged(case, lambda conversation: self._findings(conversation, case))

    def judge_custom(self, question: ExtraQuestion, case: JudgedAnswer) -> Judgement | Failure:
        """Ask one custom question; the score stands under the name of its judge."""
        case = replace(case, earlier=())  # its prompt is about this turn

        def ask(conversation: Conversation) -> _Findings:
            opinion = question.ask(conversation, case)
            scores = {question.name: opinion.score}
            return _Findings(scores, rationale=opinion.rationale, version=opinion.version)

        return self._judged(case, ask)

    def _judged(
        self, case: JudgedAnswer, ask: Callable[[Conversation], _Findings]
    ) -> Judgement | Failure:
        conversation = Conversation(self._endpoint, self._cache)
        try:
            claims.checked_case(case, self._options.max_characters)
            findings = ask(conversation)
        except JudgeError as error:
            cost_usd = self.cost_usd(conversation.model, conversation.tokens)
            return error.failure(conversation.model, conversation.tokens, cost_usd)
        return Judgement(
            scores=findings.scores,
            useful=findings.useful,
            claims=findings.claims,
            rationale=findings.rationale,
            tokens=conversation.tokens,
            cost_usd=self.cost_usd(conversation.model, conversation.tokens),
            model=conversation.model,
            prompt_version=findings.version,
        )

    def cost_usd(self, model: str, tokens: TokenUsage) -> float | None:
        """Cost in US dollars by the price table; None when the model is not in it."""
        return self._options.cost_usd(model, tokens.prompt, tokens.completion)

    def forecast(self, case: JudgedAnswer) -> TokenUsage:
        """The most tokens that judging a case can take, apart from repeated requests."""
        requests = self._requests(case)
        sent = (claims.characters(case) + _PROMPT_CHARACTERS) // _CHARACTERS_A_TOKEN
        return TokenUsage(requests * sent * _TRIES, requests * self._options.max_tokens * _TRIES)

    def forecast_usd(self, case: JudgedAnswer) -> float:
        """The most that judging a case can cost; 0 when the model has no price."""
        return self.cost_usd(self._options.model or "", self.forecast(case)) or 0.0

    def opens_in(self) -> float:
        """Seconds until the endpoint is asked again after failing; 0 when it may be asked now."""
        return self._endpoint.opens_in()

    def close(self) -> None:
        """Close the connections."""
        self._endpoint.close()

    def _findings(self, conversation: Conversation, case: JudgedAnswer) -> _Findings:
        findings = _Findings({})
        modes = self._options.modes
        if "rubric" in modes:
            scores, findings.rationale = grades.judge_rubric(conversation, case)
            if "claims" in modes:
                scores["rubric_faithfulness"] = scores.pop("faithfulness")
            findings.scores |= scores
        if "claims" in modes:
            findings.claims = self._claims(conversation, case, case.answer)
            _put(findings.scores, "faithfulness", claims.share_supported(findings.claims))
        if "useful_chunks" in modes:
            ranks = grades.judge_usefulness(conversation, case)
            findings.useful = tuple(case.chunks[rank - 1][0] for rank in ranks)
            findings.scores["context_precision"] = grades.context_precision(ranks)
        if "context_recall" in modes and case.reference:
            reference_claims = self._claims(conversation, replace(case, earlier=()), case.reference)
            recall = claims.share_supported(reference_claims)
            _put(findings.scores, "context_recall", recall)
        return findings

    def _claims(
        self, conversation: Conversation, case: JudgedAnswer, text: str
    ) -> tuple[Claim, ...]:
        return claims.judge_claims(
            conversation,
            case,
            text,
            most=self._options.max_claims,
            batch=self._options.claims_per_request,
        )

    def _requests(self, case: JudgedAnswer) -> int:
        modes = self._options.modes
        count = ("rubric" in modes) + ("useful_chunks" in modes) + len(self.questions)
        texts = [case.answer] if "claims" in modes else []
        if "context_recall" in modes and case.reference:
            texts.append(case.reference)
        for text in texts:
            most = claims.claims_at_most(text, self._options.max_claims)
            verifying = -(-most // self._options.claims_per_request)
            count += 1 + verifying * (2 if case.earlier else 1)
        return count


def build(
    options: Options,
    clock: Clock,
    cache: Cache | None = None,
    questions: Sequence[ExtraQuestion] = (),
) -> LlmJudge:
    """A judge; nothing is sent until it is asked.

    Raises:
        SettingsError: the key file cannot be read.
    """
    replies = LruCache(options.cache_entries) if cache is None else cache
    return LlmJudge(options, LlmEndpoint(options, clock), replies, questions)


def _put(scores: dict[str, float], name: str, score: float | None) -> None:
    if score is not None:
        scores[name] = score
