"""The judged answer, the judgement, and the failure."""

from typing import Literal

from msgspec import Struct

Reason = Literal[
    "timeout",
    "network",
    "rate_limited",
    "server_error",
    "circuit_open",
    "auth",
    "not_found",
    "bad_request",
    "too_long",
    "refusal",
    "truncated",
    "malformed",
    "unjudgeable",
    "bad_prompt",
]

REASONS: dict[Reason, bool] = {
    "timeout": True,
    "network": True,
    "rate_limited": True,
    "server_error": True,
    "circuit_open": True,
    "auth": True,
    "not_found": True,
    "bad_request": False,
    "too_long": False,
    "refusal": False,
    "truncated": False,
    "malformed": False,
    "unjudgeable": False,
    "bad_prompt": False,
}
"""Reasons for a missing judgement; True where asking again later may help."""


class JudgedAnswer(Struct, frozen=True):
    """One answer to judge."""

    query: str
    answer: str
    chunks: tuple[tuple[str, str], ...]  # (id, text), best first
    reference: str | None = None  # the true answer, where it is known
    earlier: tuple[tuple[str, str], ...] = ()  # of the turns before, the newest turn first


class Claim(Struct, frozen=True):
    """One statement of the answer."""

    text: str
    supported: bool
    chunk: str | None  # id of the chunk that supports it


class TokenUsage(Struct, frozen=True):
    """Sent and received."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(self.prompt + other.prompt, self.completion + other.completion)


class Judgement(Struct, frozen=True, kw_only=True):
    """Scores of one answer, with the claims and the rationale behind them.

    ``scores`` are in [0, 1]: faithfulness, answer_relevance, completeness, conciseness,
    context_precision, context_recall, and rubric_faithfulness beside claims. A score that does
    not apply is left out: an answer without claims has no faithfulness.
    """

    scores: dict[str, float]
    useful: tuple[str, ...] | None  # ids of the useful chunks, best first; None: not asked
    claims: tuple[Claim, ...]
    rationale: str
    tokens: TokenUsage
    cost_usd: float | None  # None: the model has no price
    model: str
    prompt_version: str


class CustomReply(Struct, frozen=True):
    """A model's reply to one custom question about an answer."""

    score: float  # in [0, 1]
    rationale: str
    version: str  # of the prompt


class Failure(Struct, frozen=True, kw_only=True):
    """Reason for a missing judgement; the tokens it took are counted all the same."""

    reason: Reason
    detail: str
    retryable: bool
    tokens: TokenUsage = TokenUsage()
    cost_usd: float | None = None
    model: str = ""
    cause: Reason | None = None  # of an open circuit: the error of the requests before
