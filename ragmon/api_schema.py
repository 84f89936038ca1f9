"""Requests and answers of the HTTP API, as structs; ``web.endpoints`` says which path has which.

Members keep their order and their names. A member without a value is ``null`` unless its struct
omits defaults. Answers that a core module makes stand there and are used here: ``report``,
``alerts.as_json``.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ragmon.alerts.as_json import AlertView, IncidentView, TransitionView
from ragmon.alerts.notices import IncidentChange
from ragmon.records import Chunk, Draw, Feedback, Id, Label, QueryRecord, Tokens, Verdict
from ragmon.report import LabelAgreement, LatencyFigures, MeanEstimate, PipelineReport
from ragmon.stores.protocols import BaselineRow

# ---- report and queries -----------------------------------------------------------------------


class Report(Struct, frozen=True, kw_only=True):
    """Every figure of one window, over all pipelines and for each of them."""

    window: str  # as asked for, for example 24h
    window_seconds: float
    start: float = msgspec.field(name="from")  # unix seconds, as are the next two
    to: float
    watermark: float | None  # time of the newest query that is counted; null: none yet
    queries: int
    repeats: int  # of them, asked before in the same minute by the same user or session
    latency_ms: dict[str, LatencyFigures]  # by stage
    metrics: dict[str, MeanEstimate]  # by metric, for example hit@3/label
    failure_modes: dict[str, MeanEstimate]
    judge_agreement: dict[str, LabelAgreement]  # by judge
    pipelines: list[PipelineReport]
    alerts: list[AlertView]  # the open ones


def _default_pipeline() -> str:
    return "default"


class StoredQuery(QueryRecord, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A logged query as it is kept; members that were not recorded are absent."""

    # A default from a factory is not omitted: every query names its pipeline.
    pipeline: Id = msgspec.field(default_factory=_default_pipeline)


class QueryDetail(Struct, frozen=True, kw_only=True):
    """One query with everything known of it."""

    record: StoredQuery
    signals: dict[str, float]  # by metric; those that do not apply are absent
    verdicts: tuple[Verdict, ...]
    draw: Draw | None  # null: the sampled judge never considered it
    feedback: Feedback | float | None  # a rating in [-1, 1] where it came with the query
    labels: tuple[Label, ...]
    failure_mode: str
    texts_omitted: bool = False  # true: ask for this query by its id to read its texts


class QueryList(Struct, frozen=True, kw_only=True):
    """The queries that fit, in the order asked for."""

    queries: list[QueryDetail]
    next_cursor: str | None = None  # `cursor` of the next page; null: this is the last
    matches: int | None = None  # on all pages; null on those after the first
    matches_at_least: bool = False  # true: there may be more, which were not counted in time


# ---- alerts ------------------------------------------------------------------------------------


class AlertList(Struct, frozen=True, kw_only=True):
    """Open and ended alerts: what fires first, then the newest."""

    judged_until: float | None  # unix seconds; null: nothing was evaluated yet
    alerts: list[AlertView]


class IncidentList(Struct, frozen=True, kw_only=True):
    """Open and ended incidents: what is open first, then the newest."""

    judged_until: float | None  # unix seconds; null: nothing was evaluated yet
    incidents: list[IncidentView]


class AlertDetail(AlertView, frozen=True, kw_only=True):
    """One alert with the transitions of this episode."""

    transitions: list[TransitionView]


class LostNotification(Struct, frozen=True, kw_only=True):
    """A notification that was given up."""

    sink: str
    reason: str
    attempts: int
    given_up_at: float  # unix seconds
    incident: str  # id of the incident
    headline: str
    labels: dict[str, str]
    id: str
    at: float  # unix seconds of the notification
    change: IncidentChange


class NotificationQueue(Struct, frozen=True, kw_only=True):
    """Notifications that no receiver has."""

    waiting: int
    oldest_at: float | None  # unix seconds; null: none waits
    given_up: int
    dead_letters: list[LostNotification]  # the newest first


# ---- baselines --------------------------------------------------------------------------------


class BaselineRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Source of a new baseline: exactly one of ``from`` and ``run``."""

    window: str = msgspec.field(default="", name="from")  # how far back, for example 7d
    # The output of `ragmon evaluate --json`; empty from a factory, as Raw is no default in JSON.
    run: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    by: str = ""  # who asks
    promote: bool = False


class ActiveBaseline(Struct, frozen=True, kw_only=True):
    """The baseline that live traffic is compared with."""

    name: str
    provenance: str


class BaselineList(Struct, frozen=True, kw_only=True):
    """Every version of every baseline, the newest first, and the one in use."""

    baselines: list[BaselineRow]
    active: ActiveBaseline | None


class LevelView(Struct, frozen=True, kw_only=True):
    """Level of one metric in a saved baseline of traffic."""

    pipeline: str
    metric: str
    dimension: str
    value: str
    what: str  # the metric in words
    level: float
    n: float  # samples


class BaselineDetail(BaselineRow, frozen=True, kw_only=True):
    """One version of a baseline: of traffic with its levels, or of a golden run with that run."""

    levels: list[LevelView] | UnsetType = UNSET
    run: msgspec.Raw | UnsetType = UNSET


class DeletedBaselines(Struct, frozen=True, kw_only=True):
    """Number of versions that were deleted."""

    deleted: int


# ---- judging ----------------------------------------------------------------------------------


class JudgeRunRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Past answers that the language model is to judge."""

    since: str = "1h"
    limit: Annotated[int, Meta(ge=1, le=100_000)] = 100
    pipeline: str = ""
    dry_run: bool = False  # only say what it would take


class JudgeProgress(Struct, frozen=True, kw_only=True):
    """The queue of the language model."""

    waiting: int  # answers
    paused_s: float  # until the endpoint is tried again; 0: it is not paused
    budget_left: int | None  # judgements; null: no limit


class JudgeForecast(Struct, frozen=True, kw_only=True):
    """Answers, tokens and cost of a judge run, and the queue it joins."""

    answers: int  # in the stretch of time
    judged_before: int
    to_judge: int
    at_most_tokens: int
    at_most_usd: float | None  # null: the model has no price
    about_usd: float | None
    waiting: int
    paused_s: float
    budget_left: int | None


# ---- ingest -----------------------------------------------------------------------------------


class RejectedRecord(Struct, frozen=True, kw_only=True):
    """One record of a batch that was not kept."""

    line: int  # from 1
    field: str
    error: str
    remedy: str


class IngestAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fate of a batch, once it is durable."""

    accepted: int
    duplicates: int  # sent before; not counted again
    rejected: list[RejectedRecord]  # the first ones, see limits.errors
    rejected_total: int | None = None  # present when there are more than are listed
    ignored_fields: dict[str, str | None] | None = None  # unknown member: nearest known name


# ---- recent traces ----------------------------------------------------------------------------


class SpanOutline(Struct, frozen=True, kw_only=True):
    """One span of a trace, by its place in the tree."""

    name: str
    depth: int  # 0: a root
    role: str  # for example retriever, model or chain
    ms: float
    instrumentation: str  # name of the scope; empty when not recorded
    failed: bool


class FieldExplanation(Struct, frozen=True, kw_only=True):
    """A field of a mapped query, and where its value was read."""

    value: str | float | list[Chunk] | Tokens
    span: str | None  # name of the span; null: from the resource
    key: str | None  # of the attribute or event; null: from the resource
    doubt: str | None = None  # why the value may be another; null: none


class MissingField(Struct, frozen=True, kw_only=True):
    """A field that the trace does not record, and the change that would provide it."""

    field: str
    advice: str
    span: str | None = None  # name of the span with an attribute that may hold it
    key: str | None = None  # of that attribute
    line: str | None = None  # of code or of a shell, to add to the application
    framework: str | None = None  # that the line is for; null: for any


class QueryExplanation(Struct, frozen=True, kw_only=True):
    """One query of a trace: the fields that were read, and those that are missing."""

    query_id: str
    fields: dict[str, FieldExplanation]  # by field of the query
    latency_ms: dict[str, float] | None  # by stage
    missing: list[MissingField]


class TraceEvaluation(Struct, frozen=True, kw_only=True):
    """A judgement or a user's feedback that the trace records."""

    name: str
    score: float | None
    label: str | None
    explanation: str | None
    annotator: str  # HUMAN, LLM, CODE, or empty when not recorded
    identifier: str
    scope: str  # span, trace or session
    time_ns: int  # Unix time; 0: not recorded


class SpanLoss(Struct, frozen=True, kw_only=True):
    """A span of which its SDK left something out, since it keeps no more."""

    span: str  # its name
    attributes: int
    events: int
    advice: str


class TraceExplanation(Struct, frozen=True, kw_only=True):
    """One trace as it was understood."""

    trace_id: str
    spans: list[SpanOutline]
    queries: list[QueryExplanation]
    feedback: list[TraceEvaluation]
    verdict: str  # number of queries, or the reason why there is none
    remedy: str | None = None  # what was seen in place of a query, and what would make it one
    line: str | None = None  # of code, to add to the application
    losses: list[SpanLoss] = []  # spans that are not whole
