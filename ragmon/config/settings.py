"""Every setting, with its default and what it does. ``ragmon serve`` alone works."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from ragmon.config.masked import masked
from ragmon.config.units import Bytes, Seconds, listed, time_of_day
from ragmon.judges.llm.options import Options as LlmOptions

Listed = BeforeValidator(listed)
Positive = Annotated[Seconds, Field(gt=0)]
Rank = Annotated[int, Field(ge=1, le=1000)]
TagKey = Annotated[str, Field(pattern="^[A-Za-z_][A-Za-z0-9_.-]*$")]
Scope = Literal["ingest", "read", "admin"]
Severity = Literal["info", "warning", "critical"]


class SettingsSection(BaseModel):
    """A group of settings; a typo is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class RetentionSettings(SettingsSection):
    """How long, and how much."""

    records: Positive = 7 * 86_400.0
    """How long single queries are kept; older ones are refused."""
    windows: Positive = 90 * 86_400.0
    """How long hourly sums are kept."""
    max_disk: Bytes | None = None
    """The store's file is kept below this, by deleting the oldest queries; none: no limit."""


class RetrievalSettings(SettingsSection):
    """What counts as relevant, by the retriever's own scores."""

    ks: Annotated[tuple[Rank, ...], Field(min_length=1), Listed] = (1, 3, 5, 10)
    """The k of hit@k."""
    relevant_score: float | None = None
    """A chunk that scores at least this counts as relevant; none: scores are no evidence."""
    low_score: float | None = None
    """A best score below this is a low score; none: off, since scores have no common scale."""
    diagnosis_k: Rank = 3
    """A first relevant chunk below this rank is a ranking failure."""


class LatencySettings(SettingsSection):
    """What counts as slow."""

    slow_ms: Annotated[float, Field(gt=0)] = 5_000.0
    """Milliseconds above which a query counts as slow."""


class PrivacySettings(SettingsSection):
    """What of the texts is written to disk."""

    text: Literal["keep", "redact", "drop"] = "keep"
    """keep; redact replaces e-mail addresses, phone, card and account numbers, keys; drop."""


class TokenSettings(SettingsSection):
    """A bearer token: exactly one of ``token``, ``token_file`` and ``sha256``."""

    name: str
    """Who uses it; appears in the log."""
    scopes: tuple[Scope, ...] = ("ingest",)
    """ingest: send; read: report, queries, alerts; admin: everything."""
    token: SecretStr | None = None
    """The token itself."""
    token_file: Path | None = None
    """A file that holds the token."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """The token's SHA-256 in hexadecimal, as `ragmon token` prints it."""

    @model_validator(mode="after")
    def _one(self) -> "TokenSettings":
        given = [self.token, self.token_file, self.sha256]
        if sum(each is not None for each in given) != 1:
            raise ValueError("give exactly one of token, token_file and sha256")
        return self


class AuthSettings(SettingsSection):
    """Who may do what. Without tokens ragmon listens on loopback only."""

    tokens: tuple[TokenSettings, ...] = ()
    """Bearer tokens with their scopes."""
    allow_anonymous: bool = False
    """Listen on other than loopback although no token is configured."""
    protect_metrics: bool = False
    """Ask for a token with scope read on /metrics and the probes too."""


class LimitSettings(SettingsSection):
    """What a client may ask of ragmon; beyond it the answer says so and is counted."""

    body: Bytes = 32 << 20
    """Bytes of a request body as sent (413)."""
    decompressed: Bytes = 128 << 20
    """Bytes of a request body after decompression (413)."""
    headers: Annotated[Bytes, Field(ge=1024, le=65_536)] = 65_536
    """Bytes of all request headers together (431)."""
    read_timeout: Positive = 20.0
    """Seconds until a request body must have arrived (408)."""
    queue: Bytes = 64 << 20
    """Bytes being received, and bytes accepted but not yet committed (503)."""
    errors: Annotated[int, Field(ge=1)] = 100
    """Refused lines listed in one answer; all are counted."""
    waiting: Annotated[int, Field(ge=0)] = 100_000
    """Feedback and labels that may wait for their query."""


class GroundingJudgeSettings(SettingsSection):
    """The embedded judge: reads answers against their chunks, without an LLM."""

    enabled: bool = True
    """Read the answers."""
    max_cpu: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Share of a core that it may take; behind it a known share of the answers is read."""


class JudgeSettings(SettingsSection):
    """Who judges answers."""

    grounding: GroundingJudgeSettings = GroundingJudgeSettings()
    llm: LlmOptions | None = None
    """A language model that judges a sample of the answers, by its endpoint; none: nobody does."""
    every: Positive = 15.0
    """How often answers that were drawn for the language model are given to it."""
    max_age: Positive = 86_400.0
    """A drawn answer that waits for longer is not judged, and counted as expired."""
    anchors: Path | None = None
    """A JSON-lines file of fixed answers, judged again and again to see the judge drift."""
    anchors_every: Positive = 86_400.0
    """How often; it is paid for by the same budget."""
    calibrate_every: Positive = 600.0
    """How often new labels and verdicts are looked at to calibrate the embedded judge."""
    unfaithful_below: Annotated[float, Field(ge=0, le=1)] = 0.5
    """An answer with a lower faithfulness counts as unfaithful."""


class SamplingSettings(SettingsSection):
    """Which answers the language model judges: hard limits, and how they are spread."""

    judgements_per_hour: Annotated[float, Field(ge=0)] | None = 100.0
    """Judgements in an hour; null: no limit."""
    judgements_per_day: Annotated[float, Field(ge=0)] | None = 1_000.0
    """Judgements in a day (UTC); null: no limit."""
    dollars_per_hour: Annotated[float, Field(ge=0)] | None = None
    """US dollars in an hour, by judge.llm.prices; none: no limit."""
    dollars_per_day: Annotated[float, Field(ge=0)] | None = 5.0
    """US dollars in a day (UTC), where the model has a price; null: no limit."""
    least: Annotated[float, Field(gt=0, le=1)] = 0.001
    """Smallest probability with which an answer is drawn."""
    slice_per_day: Annotated[float, Field(ge=0)] = 50.0
    """Judgements that every pipeline and slice value is meant to get in a day."""


class OtlpSettings(SettingsSection):
    """When a trace is complete."""

    linger: Positive = 2.0
    """After the last span of a trace that has its root."""
    idle_timeout: Positive = 60.0
    """After the last span of a trace whose root did not come."""
    max_traces: Annotated[int, Field(ge=1)] = 200_000
    """Traces that wait for more spans; beyond it the oldest is taken as complete."""
    grpc: str = ""
    """Address for OTLP over gRPC, for example 127.0.0.1:4317; needs ragmon[grpc]; empty: off."""


class DetectorSettings(SettingsSection):
    """What counts as worse than it should be."""

    false_alarms_per_month: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    """False alarms expected in 30 days, of everything that is watched together."""
    lag: Annotated[Seconds, Field(ge=0, le=3_600)] = 60.0
    """A minute is judged this long after its end, so that its queries have come."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """A rise of a loss by less than this is nobody's concern."""
    z: Annotated[float, Field(ge=0, le=10)] = 2.5
    """Standard errors of the reference that are granted to it."""
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = 2_000
    """Metrics of pipelines and slices that are watched; 32 kB each."""
    first_days: Annotated[int, Field(ge=0, le=7)] = 3
    """The first days are the baseline until one is set; 0: there is none until then."""
    defaults: bool = True
    """The shipped rules apply."""
    rules: tuple[dict[str, Any], ...] = ()
    """More rules, by kind; one of the same kind and metric takes the shipped one's place."""


Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Weekday, ...] = get_args(Weekday)


class MaintenanceSettings(SettingsSection):
    """A stretch of every week in which alerts are not heard; UTC."""

    name: str
    """What alerts name as their silencer."""
    days: Annotated[tuple[Weekday, ...], Listed] = WEEK
    """On which it begins."""
    start: Annotated[
        str, BeforeValidator(time_of_day), Field(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")
    ]
    """When it begins, HH:MM."""
    duration: Positive
    """How long it lasts, also past midnight."""
    pipelines: Annotated[tuple[str, ...], Listed] = ()
    """Only these; none given: all."""


class AlertSettings(SettingsSection):
    """When an alert fires, repeats and ends, and what it shows."""

    wait: dict[str, Annotated[Seconds, Field(ge=0)]] = {"threshold": 120.0}
    """How long it must be bad before the alert fires, by kind of detector."""
    keep: dict[str, Annotated[Seconds, Field(ge=0)]] = {"threshold": 300.0, "slo": 300.0}
    """How long it must be fine before the alert ends, by kind of detector."""
    renotify: Positive = 4 * 3_600.0
    """From one notification of a firing alert to the next."""
    texts: Literal["keep", "redact", "drop"] = "redact"
    """What alerts show of the texts of their worst queries; they may leave the house."""
    maintenance: tuple[MaintenanceSettings, ...] = ()
    """Weekly windows, for example {name: reindexing, days: [sun], start: 02:00, duration: 2h}."""


class SinkSettings(SettingsSection):
    """Where alerts go: what every kind has in common, and the options of the kind."""

    kind: str
    """Which; every other setting that is not below is one of its own."""
    name: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{0,64}$")] = ""
    """In metrics and logs; none: the kind."""
    min_severity: Severity = "info"
    """Less severe alerts do not go there."""
    pipelines: Annotated[tuple[str, ...], Listed] = ()
    """Only alerts of these; none: of all."""
    give_up_after: Positive = 86_400.0
    """How long a notification is tried before it becomes a dead letter."""
    options: Annotated[dict[str, Any], AfterValidator(masked)] = {}
    """Everything else that is given, checked by the kind."""

    @model_validator(mode="before")
    @classmethod
    def _of_its_kind(cls, given: Any) -> Any:
        """What is not common belongs to the kind."""
        if not isinstance(given, dict):
            return given
        common = {key: given[key] for key in cls.model_fields if key in given and key != "options"}
        return common | {"options": {str(k): v for k, v in given.items() if k not in common}}


class ProbeSettings(SettingsSection):
    """A golden set that is put to the live service again and again."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    """In metrics and logs."""
    cases: Path
    """The golden set, in any form that `ragmon evaluate` reads; read anew for each run."""
    endpoint: Annotated[str, Field(pattern="^https?://.+$")]
    """The service."""
    request: Annotated[dict[str, Any], AfterValidator(masked)] = {}
    """How to ask it and where its answer stands, as `ragmon evaluate --request` takes."""
    every: Annotated[Seconds, Field(ge=10)] = 3_600.0
    """How often; a run that is not done by then is given up."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 2
    """Questions at a time."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 2
    """Tries for each question."""
    timeout: Positive = 60.0
    """For one try."""
    ks: Annotated[tuple[Rank, ...], Field(min_length=1), Listed] = (1, 3, 5, 10)
    """The k of precision, recall, NDCG and hit."""
    limit: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Most questions of a run; the first ones of the set."""
    baseline: Path | None = None
    """A file of `ragmon evaluate --json` to compare with; none: the first run without failures."""


class LogSettings(SettingsSection):
    """What ragmon says of itself."""

    format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, JSON elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important level that is written."""


def _of_some_kind(store: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "sqlite"} | store


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
    """Address to listen on; other than loopback needs auth.tokens."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8321
    """Port to listen on; 0 takes a free one."""
    data_dir: Path = Path("ragmon-data")
    """Where everything is kept."""
    windows: Annotated[tuple[Positive, ...], Field(min_length=1), Listed] = (
        300.0,
        3_600.0,
        86_400.0,
        604_800.0,
    )
    """Rolling windows."""
    slices: Annotated[tuple[TagKey, ...], Listed] = ()
    """Tag keys by which everything is also broken down; version always is."""
    max_series: Annotated[int, Field(ge=1, le=100_000)] = 500
    """Pipelines and slice values that get windows of their own; the rest goes to other."""
    evaluate_every: Positive = 15.0
    """How often windows are evaluated."""
    snapshot_every: Positive = 10.0
    """How often windows are saved; a restart counts again what came after."""
    max_clock_skew: Positive = 300.0
    """How far in the future a timestamp may lie."""
    retention: RetentionSettings = RetentionSettings()
    retrieval: RetrievalSettings = RetrievalSettings()
    latency: LatencySettings = LatencySettings()
    privacy: PrivacySettings = PrivacySettings()
    auth: AuthSettings = AuthSettings()
    limits: LimitSettings = LimitSettings()
    judge: JudgeSettings = JudgeSettings()
    sampling: SamplingSettings = SamplingSettings()
    otlp: OtlpSettings = OtlpSettings()
    otlp_export: Annotated[dict[str, Any] | None, AfterValidator(masked)] = None
    """Where ragmon's verdicts go as OTLP, for example {endpoint: http://localhost:6006/v1/traces}."""
    detectors: DetectorSettings = DetectorSettings()
    alerts: AlertSettings = AlertSettings()
    log: LogSettings = LogSettings()
    store: Annotated[dict[str, Any], AfterValidator(_of_some_kind)] = {"kind": "sqlite"}
    """The store, by kind."""
    sources: tuple[dict[str, Any], ...] = ()
    """Sources besides HTTP, by kind, for example {kind: jsonl, path: /var/log/rag.jsonl}."""
    sinks: tuple[SinkSettings, ...] = ()
    """Where alerts go, by kind, for example {kind: alertmanager, url: http://localhost:9093}."""
    probes: tuple[ProbeSettings, ...] = ()
    """Golden sets on a schedule: {name: faq, cases: golden.jsonl, endpoint: http://localhost/ask}."""
    external_url: Annotated[str, Field(pattern="^(https?://.+)?$")] = ""
    """Address of ragmon as people reach it, for links in alerts; empty: where it listens."""
    runbooks_url: Annotated[str, Field(pattern="^https?://.+$")] = (
        "https://github.com/ragmon/ragmon/blob/main/deploy/runbooks"
    )
    """Where the runbooks are that alerts link to."""

    @model_validator(mode="after")
    def _keeps_its_windows(self) -> "Settings":
        if max(self.windows) > self.retention.windows:
            raise ValueError("windows: the longest window exceeds retention.windows")
        if min(self.windows) < 10:
            raise ValueError("windows: the shortest window is 10s")
        return self

    @model_validator(mode="after")
    def _tells_its_probes_apart(self) -> "Settings":
        names = [probe.name for probe in self.probes]
        if len(set(names)) < len(names):
            raise ValueError("probes: two have the same name")
        return self
