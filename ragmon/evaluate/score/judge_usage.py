"""Usage of a judge over one run: answers judged and failed, tokens, cost."""

import threading
from collections import Counter

from msgspec import Struct


class UsageSummary(Struct, frozen=True, kw_only=True):
    """One judge over one run. Failures are counted here and scored nowhere."""

    name: str
    judged: int = 0
    failed: dict[str, int] = {}  # by reason
    example: str = ""  # detail of the first failure
    model: str = ""
    prompt_version: str = ""
    prompt_tokens: int = 0  # of requests sent in this run; cached replies take none
    completion_tokens: int = 0
    cost_usd: float | None = None  # None: the model has no price

    def __str__(self) -> str:
        model = f" ({self.model})" if self.model else ""
        parts = [f"{self.name}{model} judged {self.judged:,}"]
        if self.failed:
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in self.failed.items())
            parts.append(f"{sum(self.failed.values()):,} failed: {reasons}")
        if self.prompt_tokens or self.completion_tokens:
            parts.append(f"{self.prompt_tokens + self.completion_tokens:,} tokens")
        if self.cost_usd is not None:
            parts.append(f"${self.cost_usd:.4f}")
        return "; ".join(parts)


class JudgeUsage:
    """Counts the usage of one judge; thread-safe."""

    def __init__(self, name: str, prompt_version: str = "") -> None:
        self._name, self._prompt_version = name, prompt_version
        self._lock = threading.Lock()
        self._judged = 0
        self._failed: Counter[str] = Counter()
        self._example = self._model = ""
        self._tokens = [0, 0]
        self._cost_usd: float | None = None

    def judged(self) -> None:
        """One answer was judged."""
        with self._lock:
            self._judged += 1

    def failed(self, reason: str, detail: str = "") -> None:
        """One answer could not be judged."""
        with self._lock:
            self._failed[reason] += 1
            self._example = self._example or detail

    def add_request(self, model: str, prompt: int, completion: int, cost_usd: float | None) -> None:
        """Tokens and cost of one request, whether or not it gave a verdict."""
        with self._lock:
            self._model = self._model or model
            self._tokens[0] += prompt
            self._tokens[1] += completion
            if cost_usd is not None:
                self._cost_usd = (self._cost_usd or 0.0) + cost_usd

    @property
    def cost_usd(self) -> float:
        """Dollars spent until now, as far as they are known."""
        return self._cost_usd or 0.0

    def summary(self) -> UsageSummary:
        """The usage until now."""
        with self._lock:
            return UsageSummary(
                name=self._name,
                judged=self._judged,
                failed=dict(sorted(self._failed.items())),
                example=self._example,
                model=self._model,
                prompt_version=self._prompt_version,
                prompt_tokens=self._tokens[0],
                completion_tokens=self._tokens[1],
                cost_usd=self._cost_usd,
            )
