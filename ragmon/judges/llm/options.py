"""The settings of the judge, as under ``judge.llm``."""

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
    """Of the endpoint, up to and without /chat/completions."""
    model: str | None = None
    """Its name for the endpoint; none: the first that the endpoint lists."""
    api_key: SecretStr | None = None
    """The key; better by environment or api_key_file."""
    api_key_file: Path | None = None
    """A file that holds the key."""
    headers: dict[str, SecretStr] = {}
    """Sent with every request."""
    api_version: str | None = None
    """Azure's api-version; the key then goes into the header api-key."""
    modes: Annotated[tuple[Mode, ...], Field(min_length=1)] = ("claims", "rubric", "useful_chunks")
    """What is asked about each answer."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Seconds for one request, from connecting to the last byte."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Requests until one succeeds, where trying again may help."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    """Requests under way at the same time."""
    max_retry_after_s: Annotated[float, Field(ge=0, le=600)] = 20.0
    """A longer Retry-After pauses the judge instead of waiting on the spot."""
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    """Failed requests in a row after which the endpoint is left alone."""
    breaker_s: Annotated[float, Field(gt=0)] = 30.0
    """For how many seconds."""
    max_tokens: Annotated[int, Field(ge=64)] = 2_048
    """Longest reply."""
    max_characters: Annotated[int, Field(ge=1_000)] = 120_000
    """An answer with more text than this, chunks included, is too long to judge."""
    max_claims: Annotated[int, Field(ge=1, le=200)] = 40
    """Most claims taken from one answer."""
    claims_per_request: Annotated[int, Field(ge=1, le=50)] = 10
    """Claims verified together."""
    prices: dict[str, Price] = {}
    """By model; what is not listed has no known cost."""
    cache_entries: Annotated[int, Field(ge=0)] = 10_000
    """Replies remembered by the content they judged."""

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
