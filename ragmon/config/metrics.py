"""Settings of the metrics that leave ragmon."""

from typing import Annotated, Literal

from pydantic import AfterValidator, SecretStr

from ragmon.config.sections import Positive, SettingsSection
from ragmon.http_client import Access, check_url


def _checked_url(value: str) -> str:
    return check_url(value) if value else value


class OtlpMetricsSettings(Access):
    """Export of all metrics as OTLP, for people without a scraper."""

    endpoint: Annotated[str, AfterValidator(_checked_url)] = ""
    """URL that receives the metrics of `/metrics` as OTLP over HTTP, for example
    http://collector:4318/v1/metrics; empty: off."""
    every: Positive = 60.0
    """Interval of the exports. One that failed is tried again after 5 s, then at growing intervals
    up to this one, or after the Retry-After of the answer."""
    headers: dict[str, SecretStr] = {}  # noqa: RUF012 - pydantic copies it
    """Headers of every request, for example {api-key: …}; a bearer token goes into token_file."""
    histograms: Literal["explicit", "exponential"] = "explicit"
    """Buckets of histograms: explicit ones as in the text formats, or, for query durations, the
    exponential ones of native histograms, which not every backend takes."""


class MetricsSettings(SettingsSection):
    """Metrics that leave ragmon."""

    otlp: OtlpMetricsSettings = OtlpMetricsSettings()
