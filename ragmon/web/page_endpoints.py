"""Paths of the pages for people, as ``ragmon.web.endpoints`` has those of the API."""

from typing import Annotated

from msgspec import Meta

from ragmon.web.document_endpoints import DOCUMENTS_PAGE
from ragmon.web.endpoint import FORM, HTML, Endpoint, Parameter, Scope
from ragmon.web.judge_report_endpoints import JUDGE_REPORT_PAGE
from ragmon.web.query_endpoints import CURSOR, FILTER

WINDOWS = ("5m", "1h", "24h", "7d")
"""Lengths that a page offers."""

OVERVIEW = Endpoint(
    name="overview",
    method="GET",
    path="/",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Pages",
    summary="Overview for a browser: every pipeline, open incidents and what changed lately",
    parameters=(Parameter("window", "Length of the window, from `10s` to `7d`.", str, "1h"),),
    media=(HTML,),
    problems=(400,),
)
PIPELINE_PAGE = Endpoint(
    name="pipelinePage",
    method="GET",
    path="/pipelines/{name:path}",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Pages",
    summary="One pipeline for a browser: charts, incidents and slices",
    parameters=(
        Parameter("name", "Name of the pipeline."),
        Parameter("window", "Length of the time, such as `24h`, at most 90 days.", str, "24h"),
        Parameter(
            "from", "Start, in place of `window`: Unix seconds, RFC 3339 or how long ago.", str, ""
        ),
        Parameter("to", "End, with `from`. Empty: now.", str, ""),
        Parameter("metric", "Only this metric. Empty: those that say most.", str, ""),
        Parameter("slice", "A slice as `dimension=value`. Empty: all.", str, ""),
        Parameter("sort", "Order of the slices: `slice`, `queries` or a metric.", str, ""),
    ),
    media=(HTML,),
    problems=(400, 404),
)
INCIDENT_PAGE = Endpoint(
    name="incidentPage",
    method="GET",
    path="/incidents/{name}",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Pages",
    summary="One incident for a browser: what, since when, where, how sure, what to try",
    parameters=(Parameter("name", "Id of the incident."),),
    media=(HTML,),
    problems=(404,),
)
INCIDENT_OF = Endpoint(
    name="incidentOf",
    method="GET",
    path="/incidents",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Pages",
    summary="Leads to the incident of an alert, for links of dashboards",
    help="To the open one that has the alert, or the newest; without any, to its pipeline.",
    parameters=(
        Parameter("pipeline", "Name of the pipeline.", str, ""),
        Parameter("alert", "Name of the alert, such as `RagmonHitRate`. Empty: any.", str, ""),
    ),
    media=(HTML,),
    status=303,
)
ALERT_PAGE = Endpoint(
    name="alertPage",
    method="GET",
    path="/alerts/{name}",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Pages",
    summary="One alert for a browser, by its id or its fingerprint",
    parameters=(Parameter("name", "Id of the alert, or its fingerprint for the newest."),),
    media=(HTML,),
    problems=(404,),
)
SEARCH = Endpoint(
    name="search",
    method="GET",
    path="/search",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="Pipelines, incidents and queries that a text names, for a browser",
    parameters=(Parameter("text", "A name, an id or a part of one.", str, ""),),
    media=(HTML,),
)
QUERY_LIST = Endpoint(
    name="queryList",
    method="GET",
    path="/queries",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="Stored queries that fit a filter, for a browser",
    help="Blank parameters ask for nothing.",
    parameters=(
        *FILTER,
        Parameter("tag", "A tag as `KEY=VALUE`, as the form sends it."),
        CURSOR,
    ),
    media=(HTML,),
    problems=(400,),
    shown_problems=(400,),
)
QUERY_PAGE = Endpoint(
    name="queryPage",
    method="GET",
    path="/queries/{query_id:path}",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="One query in full, its answer beside the chunks it rests on, for a browser",
    parameters=(Parameter("query_id", "Id of the query."),),
    media=(HTML,),
    problems=(404,),
)
JUDGES = Endpoint(
    name="judges",
    method="GET",
    path="/judge",
    scope="read",
    reads="windows",
    pipelines="own",
    tag="Pages",
    summary="Judges for a browser: coverage, spend, agreement with people, calibration, anchors",
    parameters=(Parameter("window", "Length of the window, such as `24h`.", str, "7d"),),
    media=(HTML,),
    problems=(400,),
)
SERVICE = Endpoint(
    name="servicePage",
    method="GET",
    path="/ragmon",
    scope="read",
    tag="Pages",
    summary="ragmon itself for a browser: sources, queue, store, refusals, quarantine, sinks",
    parameters=(Parameter("retried", "Entry of the quarantine that was tried again.", str, ""),),
    media=(HTML,),
)
VERSIONS = Endpoint(
    name="versions",
    method="GET",
    path="/versions",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="Two versions or tag values side by side, for a browser",
    help="Without two values, it leads to those that say most: the version with the most queries "
    "and the newest one.",
    parameters=(
        Parameter("pipeline", "Name of the pipeline.", str, ""),
        Parameter("dimension", "`version`, or a tag of `slices`.", str, "version"),
        Parameter("reference", "Value that is compared with.", str, ""),
        Parameter("candidate", "Value that is compared.", str, ""),
        Parameter("window", "Length of the time, such as `24h`, at most 90 days.", str, "24h"),
        Parameter(
            "from", "Start, in place of `window`: Unix seconds, RFC 3339 or how long ago.", str, ""
        ),
        Parameter("to", "End, with `from`. Empty: now.", str, ""),
    ),
    media=(HTML,),
    problems=(400,),
)
ASSET = Endpoint(
    name="asset",
    method="GET",
    path="/static/{digest}/{name}",
    scope="open",
    pipelines="none",
    tag="Pages",
    summary="Style sheet, script or icon of the pages; never changes at its address",
    parameters=(
        Parameter("digest", "Hash of the content."),
        Parameter("name", "Name of the file."),
    ),
    media=("text/css", "text/javascript", "image/svg+xml"),
    problems=(404,),
)
FAVICON = Endpoint(
    name="favicon",
    method="GET",
    path="/favicon.ico",
    scope="open",
    pipelines="none",
    tag="Pages",
    summary="Icon for what is no page, such as /metrics: browsers ask for it by this name",
    media=("image/svg+xml",),
)
RUNBOOKS = Endpoint(
    name="runbooks",
    method="GET",
    path="/runbooks",
    scope="open",
    pipelines="none",
    tag="Pages",
    summary="List of the runbooks, for a browser",
    media=(HTML,),
)
RUNBOOK = Endpoint(
    name="runbook",
    method="GET",
    path="/runbooks/{name}",
    scope="open",
    pipelines="none",
    tag="Pages",
    summary="Runbook of an alert, for a browser: meaning, impact, diagnosis, mitigation",
    parameters=(Parameter("name", "Name of the alert, such as `RagmonHitRate`."),),
    media=(HTML,),
    problems=(404,),
)
LOGIN_PAGE = Endpoint(
    name="loginPage",
    method="GET",
    path="/login",
    scope="open",
    pipelines="none",
    tag="Pages",
    summary="Form that takes a token, for a browser",
    parameters=(
        Parameter("next", "Path to go on to.", str, "/"),
        Parameter("again", "Sent by the page itself, once.", str, ""),
    ),
    media=(HTML,),
)
LOGIN = Endpoint(
    name="signIn",
    method="POST",
    path="/login",
    scope="open",
    pipelines="none",
    tag="Pages",
    summary="Begin a session, from the form",
    help="A token with scope `read` or `admin`; the session is kept in a cookie.",
    body=dict[str, str],
    body_media=(FORM,),
    is_form=True,
    media=(HTML,),
    status=303,
    problems=(413, 415),
)
LOGOUT = Endpoint(
    name="signOut",
    method="POST",
    path="/logout",
    scope="read",
    pipelines="none",
    tag="Pages",
    summary="End the session, from the form",
    body=dict[str, str],
    body_media=(FORM,),
    is_form=True,
    media=(HTML,),
    status=303,
    problems=(413, 415),
)


def _form(
    name: str, path: str, summary: str, *parameters: Parameter, scope: Scope = "admin"
) -> Endpoint:
    """A form of a page, which leads back to a page."""
    return Endpoint(
        name=name,
        method="POST",
        path=path,
        scope=scope,
        pipelines="own",
        tag="Pages",
        summary=summary,
        parameters=parameters,
        body=dict[str, str],
        body_media=(FORM,),
        is_form=True,
        media=(HTML,),
        status=303,
        problems=(400, 404, 413, 415),
    )


ACKNOWLEDGE_FORM = _form(
    "acknowledgeForm",
    "/incidents/{name}/acknowledge",
    "Acknowledge an incident, or take that back, from the form on its page",
    INCIDENT_PAGE.parameters[0],
)
SILENCE_FORM = _form(
    "silenceForm",
    "/alerts/{name}/silence",
    "Silence an alert, its slice or its pipeline, from the form on its page",
    ALERT_PAGE.parameters[0],
)
END_SILENCE_FORM = _form(
    "endSilenceForm",
    "/silences/{name}/end",
    "End a silence, from the form on a page",
    Parameter("name", "Id of the silence."),
)
_ENTRY = Parameter("number", "Id of the entry as it is listed, such as 7 or send-7.")
RETRY_ENTRY_FORM = _form(
    "retryEntryForm",
    "/ragmon/quarantine/{number}/retry",
    "Try an entry of the quarantine again, from the form on a page",
    _ENTRY,
)
DELETE_ENTRY_FORM = _form(
    "deleteEntryForm",
    "/ragmon/quarantine/{number}/delete",
    "Delete an entry of the quarantine, from the form on a page",
    _ENTRY,
)
LABEL_QUEUE = Endpoint(
    name="labelQueue",
    method="GET",
    path="/judge/labels",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="The answer whose label would teach the judges most, for a browser",
    parameters=(
        Parameter("pipeline", "Only this pipeline; empty for all.", str, ""),
        Parameter("query", "Id of the query to label. Empty: the one that teaches most.", str, ""),
        Parameter("labelled", "Id of the query that was labelled last.", str, ""),
    ),
    media=(HTML,),
    problems=(404,),
)
LABEL_FORM = _form(
    "labelForm",
    "/judge/labels",
    "Label an answer, take a label back, or skip the answer, from the form",
    scope="ingest",
)

TRACES = Endpoint(
    name="tracePage",
    method="GET",
    path="/traces",
    scope="read",
    reads="store",
    tag="Pages",
    summary="Recent traces for a browser: what was read of each, what is missing, what to add",
    parameters=(Parameter("last", "Traces at most.", Annotated[int, Meta(ge=1, le=100)], 20),),
    media=(HTML,),
    problems=(400,),
)

EVERY = (
    *(OVERVIEW, PIPELINE_PAGE, INCIDENT_OF, INCIDENT_PAGE, ALERT_PAGE),
    *(SEARCH, QUERY_LIST, QUERY_PAGE, VERSIONS, DOCUMENTS_PAGE, TRACES, JUDGES, SERVICE),
    *(ASSET, FAVICON),
    JUDGE_REPORT_PAGE,
    *(LOGIN_PAGE, LOGIN, LOGOUT, RUNBOOKS, RUNBOOK),
    *(LABEL_QUEUE, LABEL_FORM),
    *(ACKNOWLEDGE_FORM, SILENCE_FORM, END_SILENCE_FORM),
    *(RETRY_ENTRY_FORM, DELETE_ENTRY_FORM),
)
"""All of them, in the order of the document."""
