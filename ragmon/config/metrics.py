"""Settings of the metrics that leave ragmon: how many, which, and to where."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator

from ragmon.config.sections import Listed, Positive, SettingsSection
from ragmon.exposition.choice import HEADLINE, Intervals
from ragmon.http_client import Access, check_url

LEAST_SERIES = 1_000


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
    """Metrics that are scraped or exported; reports, alerts and the page have everything."""

    max_series: Annotated[int, Field(ge=LEAST_SERIES, le=10_000_000)] = 10_000
    """Most series that a scrape ever gets. What does not fit is left out by whole slices, those
    with the least traffic first, and counted in ragmon_series_withheld."""
    include: Annotated[tuple[str, ...], Listed] = ()
    """Names of the metrics to show, as globs, for example "ragmon_slice_*"; none: all."""
    exclude: Annotated[tuple[str, ...], Listed] = ()
    """Names of metrics to leave out, as globs, for example "ragmon_slice_latency_*"."""
    windows: Annotated[tuple[Positive, ...], Listed] = ()
    """Those of `windows` over which pipelines have gauges; none: all."""
    slice_windows: Annotated[tuple[Positive, ...], Listed] = (3_600.0,)
    """Those of `windows` over which slices have gauges; none: slices have counters alone. Where
    1h, the default, is none of `windows`, the one nearest to it is taken."""
    slice_metrics: Annotated[tuple[str, ...], Listed] = HEADLINE
    """Gauges of slices, as globs on names without ragmon_slice_."""
    intervals: Intervals = "headline"
    """Gauges with the bounds of their 95 % interval, _lower and _upper. headline: those metrics of
    pipelines whose interval the shipped dashboards and rules show; all: every ratio and mean,
    those of slices as well; none: no gauge."""
    otlp: OtlpMetricsSettings = OtlpMetricsSettings()

    @field_validator("max_series", mode="before")
    @classmethod
    def _enough(cls, value: Any) -> Any:
        if str(value).strip().isdecimal() and int(value) < LEAST_SERIES:
            raise ValueError(
                f"{value} is too few: ragmon's metrics of itself take several hundred; give at"
                f" least {LEAST_SERIES:,} and leave out more with metrics.exclude (0 is no"
                " 'unlimited': give the most series that your Prometheus can take)"
            )
        return value
