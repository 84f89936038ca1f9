"""Groups of settings, with their defaults and help texts.

The help texts are printed by ``ragmon check-config`` and stand in the settings reference. A
default that a core option has as well is taken from there, so that it is written once.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from ragmon.alerts.machine import DEFAULT_TIMING
from ragmon.config.external_labels import external_labels
from ragmon.config.masked import masked
from ragmon.config.units import Bytes, Seconds, listed, time_of_day
from ragmon.detectors import Severity
from ragmon.judges.custom.options import CustomJudges
from ragmon.judges.llm.options import Options as LlmOptions
from ragmon.judges.local.options import Options as LocalOptions
from ragmon.sampling import SamplingOptions
from ragmon.signals import SignalOptions
from ragmon.sources.otlp.receiver.assembly import TraceTimeouts
from ragmon.stores.quarantine import QuarantineBounds

Listed = BeforeValidator(listed)
Positive = Annotated[Seconds, Field(gt=0)]
Rank = Annotated[int, Field(ge=1, le=1000)]

_SIGNALS = SignalOptions()
_SAMPLING = SamplingOptions()
_TRACES = TraceTimeouts()
_QUARANTINE = QuarantineBounds()


class SettingsSection(BaseModel):
    """A group of settings; a typo is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class PipelineRetentionSettings(SettingsSection):
    """Time for which the queries of some pipelines are kept."""

    records: Positive
    """Time that the content of individual queries is kept; at most `retention.records`."""


class RetentionSettings(SettingsSection):
    """Time and disk space for stored data."""

    records: Positive = 7 * 86_400.0
    """Time that individual queries are kept. Older queries are refused when they are sent."""
    windows: Positive = 90 * 86_400.0
    """Time that hourly sums are kept; at least the longest of `windows`."""
    max_disk: Bytes | None = None
    """Size limit of the store, for example 20GB: the oldest queries are deleted to stay below
    it; none: no limit."""
    pipelines: dict[str, PipelineRetentionSettings] = {}
    """Shorter times for some pipelines, by name or glob, for example {support: {records: 2d},
    "hr-*": {records: 1d}}; a name counts before a glob, the first glob before the next. The content
    of older queries is erased within minutes; their counts stay."""

    @model_validator(mode="after")
    def _shorter(self) -> "RetentionSettings":
        for name, pipeline in self.pipelines.items():
            if pipeline.records > self.records:
                raise ValueError(
                    f"pipelines.{name}.records is longer than retention.records: raise that instead"
                    " and give the other pipelines less"
                )
        return self


class QuarantineSettings(SettingsSection):
    """Keeping what could not be decoded, mapped or judged (`ragmon quarantine`)."""

    keep: Positive = 7 * 86_400.0
    """Time that an entry is kept, unless a retry succeeds before."""
    max_entries: Annotated[int, Field(ge=1, le=100_000)] = _QUARANTINE.entries
    """Most entries kept; beyond it the oldest are deleted."""
    max_size: Bytes = _QUARANTINE.size_bytes
    """Most disk space for all entries together; beyond it the oldest are deleted."""


class BackupSettings(SettingsSection):
    """Backups of the store by `ragmon backup`, which runs beside the daemon."""

    to: str | None = None
    """Place of the backups, a directory or s3://bucket/prefix; `ragmon backup` and `ragmon restore`
    use it, and receipts of erasures name it. S3 takes its credentials from AWS_ACCESS_KEY_ID,
    AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or from the shared credentials file; none: only
    what a command names."""
    every: Positive | None = None
    """Interval at which `ragmon backup` goes on making backups; none: it makes one and ends."""
    keep: Annotated[int, Field(ge=1, le=10_000)] = 28
    """Backups to keep in that place; the oldest of the others are deleted after each new one."""
    endpoint: str = ""
    """URL of an S3 server other than AWS, for example http://minio:9000; empty: AWS_ENDPOINT_URL_S3
    or AWS_ENDPOINT_URL, else AWS."""
    region: str = ""
    """Region of the bucket; empty: AWS_REGION or AWS_DEFAULT_REGION, else us-east-1."""

    @field_validator("to")
    @classmethod
    def _place(cls, value: str | None) -> str | None:
        if value is not None and (
            "://" in value and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]+(/[^?#]*)?", value)
        ):
            raise ValueError("write a directory or s3://bucket/prefix")
        return value


class RetrievalSettings(SettingsSection):
    """Relevance of retrieved chunks by the retriever's own scores."""

    ks: Annotated[tuple[Rank, ...], Field(min_length=1), Listed] = _SIGNALS.ks
    """Values of k for which the hit ratio (hit@k) is measured."""
    relevant_score: float | None = _SIGNALS.relevant_score
    """Retrieval score from which a chunk counts as relevant; none: scores are not used, only
    labels and citations."""
    low_score: float | None = _SIGNALS.low_score
    """A query whose best retrieval score is below this counts as low score; none: not measured.
    Depends on the retriever: there is no common scale."""
    diagnosis_k: Rank = _SIGNALS.diagnosis_k
    """A query whose first relevant chunk ranks below this position counts as a ranking failure."""


class LatencySettings(SettingsSection):
    """Limit above which a query is slow."""

    slow_ms: Annotated[float, Field(gt=0)] = _SIGNALS.slow_ms
    """Milliseconds above which a query counts as slow."""


class PrivacySettings(SettingsSection):
    """Treatment of texts before they are written to disk."""

    text: Literal["keep", "redact", "drop"] = "keep"
    """Query, answer and chunk texts on disk. keep: as sent; redact: e-mail addresses, phone, card
    and account numbers and keys are replaced; drop: no texts are stored."""


class TopicSettings(SettingsSection):
    """Topics: groups of questions, found on request in a process beside the daemon."""

    max_cpu: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Share of one core that the process may take."""
    max_queries: Annotated[int, Field(ge=1_000, le=3_000_000)] = 300_000
    """Stored queries that one analysis reads; of more, evenly spaced blocks are read and their
    share is shown. A million takes about a minute of one core and 600 MB."""
    max_time: Positive = 600.0
    """Longest time of one analysis; it is given up then."""
    keep: Positive = 300.0
    """Time for which an analysis is shown again before it is made anew."""
    watch: Annotated[Seconds, Field(ge=600.0)] | None = None
    """Interval at which the topics of the last 7 days are analysed, exported and alerted on, for
    example 6h. none: only on request."""


class LimitSettings(SettingsSection):
    """Limits of a request; beyond one, the request is refused with the given status and counted."""

    body: Bytes = 32 << 20
    """Largest request body as sent (413)."""
    decompressed: Bytes = 128 << 20
    """Largest request body after decompression (413)."""
    headers: Annotated[Bytes, Field(ge=1024, le=65_536)] = 65_536
    """Largest total of the request headers (431)."""
    read_timeout: Positive = 20.0
    """Time within which a whole request body must arrive (408)."""
    write_timeout: Positive = 30.0
    """Time within which a client must take each MiB of an answer; otherwise its connection is
    closed."""
    connections: Annotated[int, Field(ge=1, le=65_536)] = 512
    """Most connections at a time, over HTTP (503; 32 more for probes) and as many over gRPC."""
    reads: Annotated[int, Field(ge=1, le=64)] = 4
    """Reads of stored queries at a time, and as many reports; others wait up to 5s (503)."""
    query_timeout: Positive = 60.0
    """Longest time for one read of stored queries (503)."""
    queue: Bytes = 64 << 20
    """Size of the batches that wait to be written to the store (503). Raise it if bursts are
    refused."""
    memory: Annotated[Bytes, Field(ge=64 << 20)] | None = None
    """Memory that ragmon may use, for example 2GiB. What a request or a read will need is
    estimated first, and answers count until their clients have taken them: beyond the limit a
    request is refused, with 503 while others use the memory and with 413 if it could never fit.
    none: three quarters of the memory limit of the container (cgroup),
    1GiB without one."""
    records: Annotated[int, Field(ge=1)] = 10_000
    """Most records, feedback, labels or scores in one request (413), lines and array elements
    that turn out to be invalid included. Of spans and log records sent by OTLP ten times as many
    are accepted, since the OpenTelemetry Collector batches 8,192 and more."""
    errors: Annotated[int, Field(ge=1)] = 100
    """Refused lines listed in one response; all of them are counted."""
    waiting: Annotated[int, Field(ge=0)] = 100_000
    """Feedback and labels kept until the query they belong to arrives; beyond it more are
    refused."""


class GroundingJudgeSettings(SettingsSection):
    """The embedded judge: compares answers with their chunks, without a language model."""

    enabled: bool = True
    """Grade answers with the embedded judge."""
    max_cpu: Annotated[float, Field(gt=0, le=1)] = 0.25
    """CPU for the embedded judge, as a share of one core. When that is too little for the
    traffic, a random sample of the answers is graded."""


class JudgeSettings(SettingsSection):
    """Grading of answers."""

    grounding: GroundingJudgeSettings = GroundingJudgeSettings()
    llm: LlmOptions | None = None
    """Language model that grades a sample of the answers, for example {base_url:
    http://localhost:11434/v1, model: qwen3}; none: only the embedded judge."""
    local: LocalOptions | None = None
    """Local model that grades answers on this host beside the embedded judge, for example {kind:
    lettucedetect, model: /models/lettucedect-base-modernbert-en-v1}; needs ragmon[local-judge];
    none: off."""
    custom: CustomJudges = ()
    """Judges of your own, for example [{name: tone, prompt_file: tone.txt, scale: 1-5}] for the
    language model, or [{name: length, kind: python, entry: "checks.answers:length"}]."""
    every: Positive = 15.0
    """Interval at which selected answers are sent to the language model."""
    max_age: Positive = 86_400.0
    """Selected answers that wait longer than this for the language model are dropped and counted
    as expired."""
    anchors: Path | None = None
    """JSON-lines file of fixed answers that the language model grades again and again, to detect
    a change of the model itself; none: off."""
    anchors_every: Positive = 86_400.0
    """Interval between two runs of the anchors; they use the budget of `sampling`."""
    calibrate_every: Positive = 600.0
    """Interval at which the embedded and the local judge are calibrated with new labels and
    verdicts."""
    earlier_turns: Annotated[int, Field(ge=0, le=5)] = 2
    """Turns of the same `session_id` before an answer whose chunks count as well, where its own do
    not support it; 0: every answer is graded alone."""
    unfaithful_below: Annotated[float, Field(ge=0, le=1)] = _SIGNALS.unfaithful_below
    """Answers with a faithfulness below this, from 0 to 1, count as unfaithful."""


class SamplingSettings(SettingsSection):
    """Selection of answers for the language model: hard limits, and how they are spread."""

    judgements_per_hour: Annotated[float, Field(ge=0)] | None = 100.0
    """Most answers graded by the language model in an hour; null: no limit."""
    judgements_per_day: Annotated[float, Field(ge=0)] | None = 1_000.0
    """Most answers graded by the language model in a day (UTC); null: no limit."""
    dollars_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Most US dollars spent in an hour, by judge.llm.prices; none: no limit."""
    dollars_per_day: Annotated[float, Field(ge=0)] | None = 5.0
    """Most US dollars spent in a day (UTC), if judge.llm.prices has the model; null: no limit."""
    least: Annotated[float, Field(gt=0, le=1)] = _SAMPLING.least
    """Smallest probability with which an answer is selected. Raise it if rare kinds of answers
    are never graded."""
    slice_per_day: Annotated[float, Field(ge=0)] = _SAMPLING.slice_per_day
    """Answers to grade per day in every pipeline and slice value, as far as the budget allows."""


class OtlpSettings(SettingsSection):
    """OpenTelemetry input: when a trace is mapped to queries, and for how long again."""

    linger: Positive = _TRACES.linger_s
    """Time without a new span after which a trace with its root span is mapped. SDKs export every
    5 seconds, so that a shorter time maps most traces of several services twice. Raise it if many
    spans are counted in ragmon_otlp_late_spans_total."""
    idle_timeout: Positive = _TRACES.idle_s
    """Time without a new span after which a trace without a root span is mapped."""
    late_for: Positive = _TRACES.late_s
    """Time for which a trace is mapped again when more of its spans come. Its queries are then
    corrected, and their time, pipeline, version and slices stay. Spans that come later are refused
    as too_late. The spans stay on disk for as long."""
    late_size: Annotated[Bytes, Field(ge=1_000_000)] = _TRACES.late_bytes
    """Size on disk of the spans that are kept for late_for, at most a quarter of
    retention.max_disk; beyond it those of the traces mapped longest ago are deleted earlier."""
    max_traces: Annotated[int, Field(ge=1)] = _TRACES.most_traces
    """Most incomplete traces kept; beyond it the oldest is taken as complete."""
    mapping_timeout: Annotated[Seconds, Field(ge=0.1, le=60)] = 10.0
    """Longest time that one trace may take to be mapped to queries; then it goes to the quarantine.
    A trace that stops the whole process for three times as long, and at least 30 seconds, ends
    it, so that it is started again and maps that trace apart from all others."""
    grpc: str = ""
    """Address for OTLP over gRPC, for example 127.0.0.1:4317; needs ragmon[grpc]; empty: off."""


Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEK: tuple[Weekday, ...] = get_args(Weekday)


class MaintenanceSettings(SettingsSection):
    """A weekly maintenance window, UTC: alerts in it send no notifications."""

    name: str
    """Name shown as the reason why no notification was sent."""
    days: Annotated[tuple[Weekday, ...], Listed] = WEEK
    """Weekdays on which the window begins."""
    start: Annotated[
        str, BeforeValidator(time_of_day), Field(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")
    ]
    """Time of day at which the window begins, HH:MM in UTC."""
    duration: Positive
    """Length of the window; it may last past midnight."""
    pipelines: Annotated[tuple[str, ...], Listed] = ()
    """Pipelines it applies to; none: all."""


class AlertSettings(SettingsSection):
    """Start, repetition, end and content of alerts."""

    wait: dict[str, Annotated[Seconds, Field(ge=0)]] = DEFAULT_TIMING.wait
    """Time that a problem must last before its alert fires, by kind of detector; other kinds
    fire at once."""
    keep: dict[str, Annotated[Seconds, Field(ge=0)]] = DEFAULT_TIMING.keep
    """Time without the problem before its alert resolves, by kind of detector; other
    kinds resolve at once."""
    renotify: Positive = DEFAULT_TIMING.renotify
    """Interval at which the notification of an open incident is repeated."""
    labels: Annotated[dict[str, str], AfterValidator(external_labels)] = {}
    """Labels of this installation that go into every notification, for example {cluster: eu-1};
    receivers route and group by them. They cannot have the name of an alert's own label."""
    texts: Literal["keep", "redact", "drop"] = "redact"
    """Texts of example queries in notifications, which may go to other companies. keep: as
    stored; redact: personal data is replaced; drop: no texts."""
    maintenance: tuple[MaintenanceSettings, ...] = ()
    """Weekly maintenance windows without notifications, for example {name: reindexing, days:
    [sun], start: 02:00, duration: 2h}; UTC."""


class SinkSettings(SettingsSection):
    """A receiver of alerts: the settings of every kind, and the options of its own kind."""

    kind: str
    """Kind of receiver, for example webhook; settings that are not listed here are its own."""
    name: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{0,64}$")] = ""
    """Name in metrics and logs; empty: the kind."""
    min_severity: Severity = "warning"
    """Lowest severity of the alerts that are sent there; info, as of repeats, can wait."""
    pipelines: Annotated[tuple[str, ...], Listed] = ()
    """Pipelines whose alerts are sent there; none: all."""
    give_up_after: Positive = 86_400.0
    """Time for which delivery of a notification is retried; then it is a dead letter."""
    options: Annotated[dict[str, Any], AfterValidator(masked)] = {}
    """Options of the kind, as they are checked by it."""

    @model_validator(mode="before")
    @classmethod
    def _of_its_kind(cls, values: Any) -> Any:
        """Move the settings that only this kind has into ``options``."""
        if not isinstance(values, dict):
            return values
        common = {key: values[key] for key in cls.model_fields if key in values}
        common.pop("options", None)
        return common | {"options": {str(k): v for k, v in values.items() if k not in common}}


class ProbeSettings(SettingsSection):
    """A golden set whose questions are put to the live service on a schedule."""

    name: Annotated[str, Field(pattern="^[A-Za-z0-9_.-]{1,64}$")]
    """Name in metrics and logs."""
    cases: Path
    """File of the golden set, in any form that `ragmon evaluate` reads; read again for each run."""
    endpoint: Annotated[str, Field(pattern="^https?://.+$")]
    """URL of the service."""
    request: Annotated[dict[str, Any], AfterValidator(masked)] = {}
    """Form of a request and of its response, as in a file for `ragmon evaluate --request`."""
    every: Annotated[Seconds, Field(ge=10)] = 3_600.0
    """Interval between two runs; a run that takes longer is stopped."""
    concurrency: Annotated[int, Field(ge=1, le=64)] = 2
    """Questions asked at the same time."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 2
    """Most attempts for each question."""
    timeout: Positive = 60.0
    """Time limit of one attempt."""
    ks: Annotated[tuple[Rank, ...], Field(min_length=1), Listed] = _SIGNALS.ks
    """Values of k for precision, recall, NDCG and hit."""
    limit: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Most questions of a run, taken from the beginning of the file."""
    baseline: Path | None = None
    """Result of `ragmon evaluate --json` to compare with; none: the first run without failures."""


class LogSettings(SettingsSection):
    """Log of ragmon itself."""

    format: Literal["auto", "json", "console"] = "auto"
    """json: one object a line; console: lines to read; auto: console on a terminal, else json."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is written: debug, info, warning or error."""
