"""Error that ends a judgement without a verdict."""

from ragmon.errors import RagmonError
from ragmon.judges.llm.verdict import REASONS, Failure, Reason, TokenUsage


class JudgeError(RagmonError):
    """The language model gave no verdict; ``reason`` says why, out of a small set."""

    def __init__(
        self,
        reason: Reason,
        detail: str,
        *,
        retry_after_s: float = 0.0,
        cause: Reason | None = None,
    ) -> None:
        super().__init__(detail)
        self.reason = reason
        self.cause = cause  # of an open circuit: the error of this request before
        self.detail = detail
        self.retryable = REASONS[reason]
        self.retry_after_s = retry_after_s

    def failure(self, model: str, tokens: TokenUsage, cost_usd: float | None) -> Failure:
        """The error as the result of a judgement, with what the requests took."""
        return Failure(
            reason=self.reason,
            detail=self.detail,
            retryable=self.retryable,
            tokens=tokens,
            cost_usd=cost_usd,
            model=model,
            cause=self.cause,
        )
