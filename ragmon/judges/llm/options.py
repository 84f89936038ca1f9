"""Settings of the language model that grades answers, as under ``judge.llm``."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from ragmon.errors import SettingsError

Mode = Literal["claims", "rubric", "useful_chunks", "context_recall"]

_PATH = "/chat/completions"


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("write a URL such as http://localhost:11434/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("no credentials and no query here: use api_key_file and api_version")
    return value.rstrip("/").removesuffix(_PATH)


class Price(BaseModel):
    """US dollars for a million tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    prompt: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Tokens sent."""
    completion: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Tokens received."""


class Options(BaseModel):
    """One endpoint, one model, and what is asked of it."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )

    base_url: Annotated[str, AfterValidator(_url)]
    """URL of an OpenAI-compatible endpoint, without /chat/completions, for example
    http://localhost:11434/v1."""
    model: str | None = None
    """Name of the model; none: the first that the endpoint lists."""
    api_key: SecretStr | None = None
    """API key; prefer api_key_file, or the environment variable RAGMON_JUDGE__LLM__API_KEY."""
    api_key_file: Path | None = None
    """File that holds the API key."""
    headers: dict[str, SecretStr] = {}
    """Headers sent with every request."""
    api_version: str | None = None
    """api-version of Azure OpenAI; the API key is then sent in the header api-key."""
    modes: Annotated[tuple[Mode, ...], Field(min_length=1)] = ("claims", "rubric", "useful_chunks")
    """Questions asked about each answer. claims: is each of its claims supported; rubric: grades;
    useful_chunks: which chunks helped; context_recall: do the chunks hold the reference answer."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Time limit of one request in seconds, from connecting to the last byte."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Most attempts for a request that fails with a temporary error."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Requests sent at the same time."""
    max_retry_after_s: Annotated[float, Field(ge=0, le=600)] = 20.0
    """Longest Retry-After in seconds that a request waits for; a longer one pauses the judge."""
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    """Failed requests in a row after which no requests are sent for `breaker_s`."""
    breaker_s: Annotated[float, Field(gt=0)] = 30.0
    """Seconds without requests after `breaker_failures`."""
    max_tokens: Annotated[int, Field(ge=64)] = 2_048
    """Longest reply, in tokens."""
    max_characters: Annotated[int, Field(ge=1_000)] = 120_000
    """Answers with more characters than this, chunks included, are not judged. Lower it if the
    model has a small context."""
    max_claims: Annotated[int, Field(ge=1, le=200)] = 40
    """Most claims checked of one answer."""
    claims_per_request: Annotated[int, Field(ge=1, le=50)] = 10
    """Claims checked in one request. Lower it if a small model loses track of them."""
    prices: dict[str, Price] = {}
    """US dollars for a million tokens by model, for example {gpt-4o-mini: {prompt: 0.15,
    completion: 0.6}}; needed for limits in dollars."""
    cache_entries: Annotated[int, Field(ge=0)] = 10_000
    """Replies kept in memory, so that the same answer is not judged twice; 0: off."""

    @model_validator(mode="after")
    def _one_key(self) -> "Options":
        if self.api_key and self.api_key_file:
            raise ValueError("give api_key or api_key_file, not both")
        return self

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
