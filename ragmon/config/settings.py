"""Every setting, with its default and help text. ``ragmon serve`` works without any."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from ragmon.config.access import AuditSettings, AuthSettings, TlsSettings
from ragmon.config.detection import DetectorSettings
from ragmon.config.links import LinkSettings
from ragmon.config.masked import Masked, masked
from ragmon.config.metrics import MetricsSettings
from ragmon.config.replica import ReplicaSettings
from ragmon.config.sections import (
    AlertSettings,
    BackupSettings,
    JudgeSettings,
    LatencySettings,
    LimitSettings,
    Listed,
    LogSettings,
    OtlpSettings,
    Positive,
    PrivacySettings,
    ProbeSettings,
    QuarantineSettings,
    RetentionSettings,
    RetrievalSettings,
    SamplingSettings,
    SinkSettings,
    TopicSettings,
)
from ragmon.durations import duration_text

TagKey = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_.-]*$")]


def _with_kind(store: dict[str, Any]) -> dict[str, Any]:
    return Masked({"kind": "sqlite"} | store) if "dsn" in store else {"kind": "sqlite"} | store


def _with_a_host(url: str) -> str:
    """The URL, if its host can be told: requests of browsers are compared with it."""
    if url and not urlsplit(url).hostname:
        raise ValueError("names no host")
    return url


class Settings(BaseSettings):
    """ragmon.yaml, then the environment (RAGMON_ prefix, __ nesting), then flags."""

    model_config = SettingsConfigDict(
        env_prefix="RAGMON_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    host: str = "127.0.0.1"
    """Address to listen on; any other than loopback needs `auth.tokens`."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8321
    """Port to listen on; 0: any free port."""
    data_dir: Path = Path("ragmon-data")
    """Directory of the store; one ragmon at a time may use it."""
    windows: Annotated[tuple[Positive, ...], Field(min_length=1), Listed] = (
        300.0,
        3_600.0,
        86_400.0,
        604_800.0,
    )
    """Lengths of the rolling windows over which metrics are computed, from 10s up to
    `retention.windows`."""
    slices: Annotated[tuple[TagKey, ...], Listed] = ()
    """Tag keys by which all metrics are also broken down, for example tenant; version always is.
    `model` and `environment` take the fields of that name where a query has no such tag."""
    max_series: Annotated[int, Field(ge=1, le=100_000)] = 500
    """Most pipelines and slice values with metrics of their own; the others are counted together
    under `other`."""
    evaluate_every: Positive = 15.0
    """Interval at which metrics and alerts are evaluated."""
    snapshot_every: Positive = 10.0
    """Interval at which the windows are saved. A restart reads the queries since then again: raise
    it to write less, lower it to start faster."""
    max_clock_skew: Positive = 300.0
    """Longest time that a query, feedback, label or score may lie ahead; later ones are refused."""
    metrics: MetricsSettings = MetricsSettings()
    retention: RetentionSettings = RetentionSettings()
    quarantine: QuarantineSettings = QuarantineSettings()
    backup: BackupSettings = BackupSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    latency: LatencySettings = LatencySettings()
    privacy: PrivacySettings = PrivacySettings()
    auth: AuthSettings = AuthSettings()
    tls: TlsSettings = TlsSettings()
    audit: AuditSettings = AuditSettings()
    limits: LimitSettings = LimitSettings()
    judge: JudgeSettings = JudgeSettings()
    topics: TopicSettings = TopicSettings()
    sampling: SamplingSettings = SamplingSettings()
    otlp: OtlpSettings = OtlpSettings()
    otlp_export: Annotated[dict[str, Any] | None, AfterValidator(masked)] = None
    """Endpoint to which verdicts are sent as OTLP spans, for example {endpoint:
    http://localhost:6006/v1/traces}; none: off."""
    detectors: DetectorSettings = DetectorSettings()
    alerts: AlertSettings = AlertSettings()
    replica: ReplicaSettings = ReplicaSettings()
    log: LogSettings = LogSettings()
    store: Annotated[dict[str, Any], AfterValidator(_with_kind)] = _with_kind({})
    """Kind of store and its options: {kind: sqlite, synchronous: NORMAL}, or in PostgreSQL
    {kind: postgresql, dsn_file: /run/secrets/postgres}, for replicas without a volume."""
    sources: tuple[dict[str, Any], ...] = ()
    """Sources besides HTTP and OTLP, for example {kind: jsonl, path: /var/log/rag.jsonl}."""
    sinks: tuple[SinkSettings, ...] = ()
    """Receivers of alerts, for example {kind: alertmanager, url: http://localhost:9093}."""
    probes: tuple[ProbeSettings, ...] = ()
    """Golden sets that are asked on a schedule, for example {name: faq, cases: golden.jsonl,
    endpoint: http://localhost/ask}."""
    external_url: Annotated[
        str, Field(pattern="^(https?://.+)?$"), AfterValidator(_with_a_host)
    ] = ""
    """URL of ragmon as people open it, for links in alerts; empty: `host` and `port`."""
    runbooks_url: Annotated[str, Field(pattern="^(https?://.+)?$")] = ""
    """URL of runbooks of your own, to which alerts link with /NAME.md behind it; empty: ragmon's,
    which it serves itself at /runbooks/NAME."""

    links: LinkSettings = LinkSettings()

    @model_validator(mode="after")
    def _check_windows(self) -> "Settings":
        if max(self.windows) > self.retention.windows:
            raise ValueError("windows: the longest window exceeds retention.windows")
        if min(self.windows) < 10:
            raise ValueError("windows: the shortest window is 10s")
        return self

    @model_validator(mode="after")
    def _check_shown_windows(self) -> "Settings":
        for name in ("windows", "slice_windows"):
            lengths = (
                set(getattr(self.metrics, name)) if name in self.metrics.model_fields_set else ()
            )
            if unknown := [length for length in lengths if length not in self.windows]:
                raise ValueError(
                    f"metrics.{name}: {duration_text(min(unknown))} is none of `windows`"
                    f" ({', '.join(map(duration_text, self.windows))}): add it there"
                )
        return self

    @model_validator(mode="after")
    def _check_probe_names(self) -> "Settings":
        names = [probe.name for probe in self.probes]
        if len(set(names)) < len(names):
            raise ValueError("probes: two have the same name")
        return self
