"""Settings of the LLM judge, as under ``judge.llm``."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from ragmon.errors import SettingsError

Mode = Literal["claims", "rubric", "useful_chunks", "context_recall"]

_PATH = "/chat/completions"
_PRICED_TOKENS = 1e6


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL such as http://localhost:11434/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("no credentials and no query here: use api_key_file and api_version")
    return value.rstrip("/").removesuffix(_PATH)


class Price(BaseModel):
    """US dollars per million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    prompt: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Of tokens sent (the prompt)."""
    completion: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Of tokens received (the completion)."""


class Options(BaseModel):
    """One endpoint, one model, and the questions asked of it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )

    base_url: Annotated[str, AfterValidator(_url)]
    """URL of an OpenAI-compatible endpoint, without /chat/completions."""
    model: str | None = None
    """Model name as the endpoint knows it; unset: the first model that the endpoint lists."""
    api_key: SecretStr | None = None
    """API key; prefer an environment variable or api_key_file to writing it here."""
    api_key_file: Path | None = None
    """File with the API key."""
    headers: dict[str, SecretStr] = {}
    """HTTP headers sent with every request."""
    api_version: str | None = None
    """Azure OpenAI's api-version; if set, the key is sent in the api-key header."""
    modes: Annotated[tuple[Mode, ...], Field(min_length=1)] = ("claims", "rubric", "useful_chunks")
    """Questions asked about each answer; each mode adds requests and metrics."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Timeout of one request in seconds, from connecting to the last byte."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Most tries of one request; only errors that may pass are retried."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Requests sent at the same time."""
    max_retry_after_s: Annotated[float, Field(ge=0, le=600)] = 20.0
    """Longest Retry-After (seconds) that a request waits for; a longer one pauses the judge."""
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    """Failed requests in a row after which no request is sent for breaker_s."""
    breaker_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds without requests after breaker_failures."""
    max_tokens: Annotated[int, Field(ge=64)] = 2_048
    """Longest reply in tokens; a longer one is discarded as truncated."""
    max_characters: Annotated[int, Field(ge=1_000)] = 120_000
    """An answer with more characters than this, chunks included, is not judged."""
    max_claims: Annotated[int, Field(ge=1, le=200)] = 40
    """Most claims taken from one answer."""
    claims_per_request: Annotated[int, Field(ge=1, le=50)] = 10
    """Claims verified in one request."""
    prices: dict[str, Price] = {}
    """Prices by model name; the cost of a model that is not listed is unknown."""
    cache_entries: Annotated[int, Field(ge=0)] = 10_000
    """Replies kept in memory, so that the same content is not judged twice."""

    @model_validator(mode="after")
    def _one_key(self) -> "Options":
        if self.api_key and self.api_key_file:
            raise ValueError("give api_key or api_key_file, not both")
        return self

    def cost_usd(self, model: str, prompt: int, completion: int) -> float | None:
        """Cost in US dollars of tokens sent and received; None when the model has no price."""
        price = self.prices.get(model)
        if price is None:
            return None
        return (prompt * price.prompt + completion * price.completion) / _PRICED_TOKENS

    def key(self) -> str:
        """The key, empty without one.

        Raises:
            SettingsError: the file cannot be read.
        """
        if self.api_key_file is None:
            return self.api_key.get_secret_value().strip() if self.api_key else ""
        try:
            return self.api_key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(
                f"judge.llm.api_key_file: cannot read {self.api_key_file}: {reason}"
            ) from error
