"""Paths of stored queries, as ``ragmon.web.endpoints`` has those of everything else."""

from typing import Annotated, Literal

from msgspec import Meta

from ragmon import api_schema as schema
from ragmon.query_string import KEY
from ragmon.web.endpoint import LIMIT, NDJSON, PIPELINE, SINCE, Endpoint, Parameter

ORDERS = ("newest", "slowest", "worst")
FORMATS = ("jsonl", "csv", "golden")
MOST_EXPORTED = 1_000_000
FIELDS = {
    "environment": "environment",
    "model": "model",
    "session": "session_id",
    "user": "user_id",
    "trace": "trace_id",
}
"""Parameters whose value is that of a field of the record, exactly."""
TAGS = "tag."
"""Beginning of the parameters whose names hold the key of a tag, such as ``tag.tenant``."""

_UNTIL = Parameter(
    "until", "End, exclusive; in the forms of `since`. Empty: whatever came in until now.", str
)
_SHARE = Annotated[float, Meta(ge=0.0, le=1.0)]
_EXACTLY = "exactly; empty for those that name none."
FILTER = (
    PIPELINE,
    Parameter("version", "Only this version, exactly; empty for those that name none."),
    Parameter(
        TAGS + KEY,
        "Only where the tag KEY has this value, exactly, as in `tag.tenant=acme`; empty for "
        "those without it. Several tags must all fit.",
    ),
    Parameter(
        "failing",
        "Failures separated by commas, any of which fits, such as `zero_result,error`.",
    ),
    Parameter("environment", f"Only this environment, {_EXACTLY}"),
    Parameter("model", f"Only this model, {_EXACTLY}"),
    Parameter("session", f"Only this session_id, {_EXACTLY}"),
    Parameter("user", f"Only this user_id, {_EXACTLY}"),
    Parameter("trace", f"Only this trace_id, {_EXACTLY}"),
    Parameter(
        "failure_mode",
        "Only this failure mode: retrieval, ranking, generation, none or unknown.",
    ),
    Parameter("feedback", "Only these: rated positive, negative or neutral, or none: not rated."),
    Parameter(
        "min_score",
        "Only answers whose faithfulness is at least this, by people, else the sampled judge, "
        "else the embedded one; never those that nobody judged.",
        _SHARE,
    ),
    Parameter("max_score", "Likewise at most this.", _SHARE),
    Parameter(
        "words",
        "Only where question and answer together hold all these words: whole words, in any "
        "order and case; 20 at most.",
    ),
    SINCE,
    _UNTIL,
    Parameter(
        "order",
        "First the newest, the slowest of those whose latency is known, or the least faithful "
        "of those that were judged.",
        Literal["newest", "slowest", "worst"],
        "newest",
    ),
)
CURSOR = Parameter("cursor", "Go on after a page: its `next_cursor`. Everything else stays as is.")
QUERIES = Endpoint(
    name="queries",
    method="GET",
    path="/v1/queries",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Queries",
    summary="Stored queries that fit, a page at a time",
    help="With `failing=unfaithful` alone, the least faithful come first. The first 100 come with "
    "their texts, as far as these fit into 4 MiB; `texts_omitted` is true for the others: ask for "
    "them by their ids. The first page counts all that fit, as far as that takes little time.",
    parameters=(
        *FILTER,
        CURSOR,
        LIMIT,
    ),
    answer=schema.QueryList,
    problems=(400,),
)
QUERY = Endpoint(
    name="query",
    method="GET",
    path="/v1/queries/{query_id:path}",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Queries",
    summary="One query with everything known of it",
    parameters=(
        Parameter("query_id", "Id of the query; for OpenTelemetry the trace id in hexadecimal."),
    ),
    answer=schema.QueryDetail,
    problems=(404,),
)

EXPORT = Endpoint(
    name="exportQueries",
    method="GET",
    path="/v1/export",
    scope="read",
    pipelines="own",
    tag="Queries",
    summary="All stored queries that fit, as a file",
    help="Lines of JSON as `GET /v1/queries/{query_id}` answers them; a table as CSV, where a cell "
    "that a spreadsheet would compute begins with an apostrophe; or a golden set for `ragmon "
    "evaluate`, of the questions with labels of relevant documents or of faithful answers. An "
    "export that cannot go on breaks the connection: what came is incomplete.",
    parameters=(
        *FILTER,
        Parameter("format", "Form of the file.", Literal["jsonl", "csv", "golden"], FORMATS[0]),
        Parameter(
            "limit", "Queries at most.", Annotated[int, Meta(ge=1, le=MOST_EXPORTED)], 10_000
        ),
    ),
    media=(NDJSON, "text/csv"),
    answer=None,
    problems=(400,),
)

EVERY = (QUERIES, QUERY, EXPORT)
"""All of them, in the order of the document."""
