"""Paths that answer from what ragmon knows: method, scope, parameters, body and answer.

The routes are made from these values, and so is the OpenAPI document.
"""

from typing import Any, Literal

from ragmon import api_schema as schema
from ragmon import erasure_schema, silence_schema, token_schema
from ragmon.stores.protocols import BaselineRow
from ragmon.web import (
    document_endpoints,
    incident_endpoints,
    judge_report_endpoints,
    page_endpoints,
    quarantine_endpoints,
    query_endpoints,
    topic_endpoints,
)
from ragmon.web.endpoint import (
    LIMIT,
    METRIC_FAMILIES,
    OPENMETRICS,
    PIPELINE,
    SINCE,
    TEXT,
    Endpoint,
    Parameter,
)
from ragmon.web.series_endpoint import COMPARE, SERIES

STATES = ("open", "resolved", "all")

_VERSION = Parameter(
    "version", "Version of the baseline; the promoted or newest one if absent.", int
)
_BASELINE = Parameter("name", "Name of the baseline.")

METRICS = Endpoint(
    name="metrics",
    method="GET",
    path="/metrics",
    scope="metrics",
    tag="Monitoring",
    summary="Metrics for Prometheus",
    help="Text (0.0.4, 1.0.0), OpenMetrics 1.0.0 with trace ids as exemplars, or protobuf with "
    "native histograms, as the Accept header asks; gzip or zstd as Accept-Encoding asks.",
    media=(TEXT, OPENMETRICS, METRIC_FAMILIES),
)
LIVE = Endpoint(
    name="live",
    method="GET",
    path="/livez",
    scope="probe",
    pipelines="none",
    tag="Monitoring",
    summary="Liveness: 200 while every loop turns, otherwise 503; restart ragmon then",
    media=(TEXT,),
)
READY = Endpoint(
    name="ready",
    method="GET",
    path="/readyz",
    scope="probe",
    pipelines="none",
    tag="Monitoring",
    summary="Readiness: 200 once the windows are restored and the store accepts writes",
    media=(TEXT,),
)
REPORT = Endpoint(
    name="report",
    method="GET",
    path="/v1/report",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Report",
    summary="Every metric of one window with its 95 % interval, and the open alerts",
    parameters=(
        Parameter("window", "Length of the window, such as `5m` or `24h`.", str, "24h"),
        PIPELINE,
        Parameter("end", "End of the window: Unix seconds, RFC 3339 or how long ago. Empty: now."),
    ),
    answer=schema.Report,
    problems=(400,),
)
OPENAPI = Endpoint(
    name="openapi",
    method="GET",
    path="/openapi.json",
    scope="open",
    pipelines="none",
    tag="Monitoring",
    summary="This document",
    answer=dict[str, Any],
)

ALERTS = Endpoint(
    name="alerts",
    method="GET",
    path="/v1/alerts",
    scope="read",
    pipelines="own",
    tag="Alerts",
    summary="Open and ended alerts with their evidence",
    parameters=(
        Parameter("state", "Alerts to list.", Literal["open", "resolved", "all"], "all"),
        PIPELINE,
        SINCE,
        LIMIT,
    ),
    answer=schema.AlertList,
    problems=(400,),
)
INCIDENTS = Endpoint(
    name="incidents",
    method="GET",
    path="/v1/incidents",
    scope="read",
    pipelines="own",
    tag="Alerts",
    summary="Open and ended incidents: alerts that share a cause, with the cause and a headline",
    parameters=(
        Parameter("state", "Incidents to list.", Literal["open", "resolved", "all"], "all"),
        PIPELINE,
        SINCE,
        LIMIT,
    ),
    answer=schema.IncidentList,
    problems=(400,),
)
ALERT = Endpoint(
    name="alert",
    method="GET",
    path="/v1/alerts/{name}",
    scope="read",
    pipelines="own",
    tag="Alerts",
    summary="One alert with its transitions",
    parameters=(Parameter("name", "Id of one episode, or a fingerprint for the newest episode."),),
    answer=schema.AlertDetail,
    problems=(404,),
)
NOTIFICATIONS = Endpoint(
    name="notifications",
    method="GET",
    path="/v1/notifications",
    scope="read",
    tag="Alerts",
    summary="Notifications that no receiver has: waiting, or given up with the reason",
    parameters=(LIMIT,),
    answer=schema.NotificationQueue,
    problems=(400,),
)
SILENCES = Endpoint(
    name="silences",
    method="GET",
    path="/v1/silences",
    scope="read",
    tag="Silences",
    summary="Every silence with its state",
    answer=silence_schema.SilenceList,
)
ADD_SILENCE = Endpoint(
    name="addSilence",
    method="POST",
    path="/v1/silences",
    scope="admin",
    tag="Silences",
    summary="Silence the alerts that meet every condition",
    body=silence_schema.SilenceRequest,
    answer=silence_schema.SilenceView,
    status=201,
    problems=(400,),
)
DELETE_SILENCE = Endpoint(
    name="deleteSilence",
    method="DELETE",
    path="/v1/silences/{name}",
    scope="admin",
    tag="Silences",
    summary="Delete a silence",
    parameters=(Parameter("name", "Id of the silence."),),
    answer=silence_schema.DeletedSilence,
    problems=(404,),
)

BASELINES = Endpoint(
    name="baselines",
    method="GET",
    path="/v1/baselines",
    scope="read",
    tag="Baselines",
    summary="Every version of every baseline, and the one that live traffic is compared with",
    answer=schema.BaselineList,
)
BASELINE = Endpoint(
    name="baseline",
    method="GET",
    path="/v1/baselines/{name}",
    scope="read",
    reads="store",
    tag="Baselines",
    summary="One baseline with its levels, or with the evaluation it was made of",
    parameters=(_BASELINE, _VERSION),
    answer=schema.BaselineDetail,
    problems=(400, 404),
)
SAVE_BASELINE = Endpoint(
    name="saveBaseline",
    method="PUT",
    path="/v1/baselines/{name}",
    scope="admin",
    tag="Baselines",
    summary="Save another version, from recent traffic or from an evaluation",
    parameters=(_BASELINE,),
    body=schema.BaselineRequest,
    answer=BaselineRow,
    status=201,
    problems=(400,),
)
PROMOTE_BASELINE = Endpoint(
    name="promoteBaseline",
    method="POST",
    path="/v1/baselines/{name}/promote",
    scope="admin",
    tag="Baselines",
    summary="Compare with this version from now on",
    parameters=(_BASELINE, _VERSION),
    answer=BaselineRow,
    problems=(400, 404),
)
DELETE_BASELINE = Endpoint(
    name="deleteBaseline",
    method="DELETE",
    path="/v1/baselines/{name}",
    scope="admin",
    tag="Baselines",
    summary="Delete one version, or all if none is named",
    parameters=(_BASELINE, Parameter("version", "Version to delete; all if absent.", int)),
    answer=schema.DeletedBaselines,
    problems=(400, 404),
)

JUDGE_PROGRESS = Endpoint(
    name="judgeProgress",
    method="GET",
    path="/v1/judge",
    scope="read",
    tag="Judging",
    summary="Answers that wait for the language model, and what delays them",
    answer=schema.JudgeProgress,
    problems=(404,),
)
JUDGE = Endpoint(
    name="judge",
    method="POST",
    path="/v1/judge",
    scope="admin",
    tag="Judging",
    summary="Have a sample of past answers judged, or only forecast the cost",
    help="404 when no language model is configured.",
    body=schema.JudgeRunRequest,
    answer=schema.JudgeForecast,
    problems=(400, 404),
)

TOKENS = Endpoint(
    name="tokens",
    method="GET",
    path="/v1/tokens",
    scope="admin",
    tag="Access",
    summary="Every token with its rights, expiry and last use; never a secret",
    answer=token_schema.TokenList,
)
AUDIT = Endpoint(
    name="audit",
    method="GET",
    path="/v1/audit",
    scope="admin",
    reads="store",
    tag="Access",
    summary="Changes through the API and refused tokens, newest first: who, what, when",
    parameters=(SINCE, LIMIT),
    answer=token_schema.AuditList,
    problems=(400,),
)

_DRY_RUN = Parameter("dry_run", "Only count what would be erased.", bool, False)
_ONLY_PIPELINE = Parameter("pipeline", "Only in this pipeline; empty for all.", str, "")
_ERASED = (
    "Runs on in the background and survives restarts: ask `/v1/forgotten/{request}` for the"
    " receipt. Texts, ids, tags and comments go; counts stay. What comes later is not blocked."
)

FORGET_USER = Endpoint(
    name="forgetUser",
    method="DELETE",
    path="/v1/users/{name:path}",
    scope="admin",
    tag="Privacy",
    summary="Erase what is stored of one user",
    help=_ERASED,
    personal=True,
    parameters=(Parameter("name", "The user_id of the queries."), _ONLY_PIPELINE, _DRY_RUN),
    answer=erasure_schema.ErasureReceipt,
    status=202,
    problems=(400,),
)
FORGET_SESSION = Endpoint(
    name="forgetSession",
    method="DELETE",
    path="/v1/sessions/{name:path}",
    scope="admin",
    tag="Privacy",
    summary="Erase what is stored of one session",
    help=_ERASED,
    personal=True,
    parameters=(Parameter("name", "The session_id of the queries."), _ONLY_PIPELINE, _DRY_RUN),
    answer=erasure_schema.ErasureReceipt,
    status=202,
    problems=(400,),
)
FORGOTTEN = Endpoint(
    name="forgotten",
    method="GET",
    path="/v1/forgotten",
    scope="admin",
    tag="Privacy",
    summary="Receipts of every erasure, the newest first",
    answer=erasure_schema.ErasureList,
)
RECEIPT = Endpoint(
    name="erasureReceipt",
    method="GET",
    path="/v1/forgotten/{request}",
    scope="admin",
    tag="Privacy",
    summary="One receipt of an erasure",
    parameters=(Parameter("request", "Id of the request, as the receipt has it."),),
    answer=erasure_schema.ErasureReceipt,
    problems=(404,),
)

EVERY = (
    *page_endpoints.EVERY,
    *(METRICS, LIVE, READY, REPORT, SERIES, COMPARE, *query_endpoints.EVERY),
    *(*document_endpoints.EVERY, *topic_endpoints.EVERY, OPENAPI),
    *(ALERTS, ALERT, INCIDENTS, *incident_endpoints.EVERY, NOTIFICATIONS),
    *(SILENCES, ADD_SILENCE, DELETE_SILENCE),
    *(BASELINES, BASELINE, SAVE_BASELINE, PROMOTE_BASELINE, DELETE_BASELINE),
    *(JUDGE_PROGRESS, JUDGE),
    *judge_report_endpoints.EVERY,
    *(FORGET_USER, FORGET_SESSION, FORGOTTEN, RECEIPT),
    *(TOKENS, AUDIT),
    *quarantine_endpoints.EVERY,
)
"""All of them, in the order of the document."""
