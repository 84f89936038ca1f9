"""Paths of stored queries, as ``ragmon.web.endpoints`` has those of everything else."""

from typing import Literal

from ragmon import api_schema as schema
from ragmon.query_string import KEY
from ragmon.web.endpoint import LIMIT, PIPELINE, SINCE, Endpoint, Parameter

ORDERS = ("newest", "slowest")
TAGS = "tag."
"""Beginning of the parameters whose names hold the key of a tag, such as ``tag.tenant``."""

_UNTIL = Parameter(
    "until", "End, exclusive; in the forms of `since`. Empty: whatever came in until now.", str
)
QUERIES = Endpoint(
    name="queries",
    method="GET",
    path="/v1/queries",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Queries",
    summary="Newest queries, or the newest that failed in some way",
    help="With `failing=unfaithful` alone, the least faithful come first. The first 100 come with "
    "their texts, as far as these fit into 4 MiB; `texts_omitted` is true for the others: ask for "
    "them by their ids.",
    parameters=(
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
        SINCE,
        _UNTIL,
        Parameter(
            "order",
            "First the newest, or the slowest of those whose latency is known.",
            Literal["newest", "slowest"],
            "newest",
        ),
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

EVERY = (QUERIES, QUERY)
"""All of them, in the order of the document."""
