"""Paths of documents, as ``ragmon.web.endpoints`` has those of everything else."""

from typing import Annotated, Literal

from msgspec import Meta

from ragmon.documents.live import LiveDocumentList
from ragmon.documents.report import DocumentReport
from ragmon.web.endpoint import HTML, LIMIT, PIPELINE, Endpoint, Parameter

UNITS = ("chunk", "source")
DEFAULT_SINCE = "7d"
DEFAULT_K = 3

_PARAMETERS = (
    PIPELINE,
    Parameter(
        "since",
        "Start: Unix seconds, RFC 3339, or how long ago, such as `24h`.",
        str,
        DEFAULT_SINCE,
    ),
    Parameter("until", "End, exclusive; in the forms of `since`. Empty: now.", str, ""),
    Parameter("by", "Count chunks, or their sources.", Literal["chunk", "source"], UNITS[0]),
    Parameter(
        "k",
        "Rank below which a relevant document is lost.",
        Annotated[int, Meta(ge=1, le=100)],
        DEFAULT_K,
    ),
    Parameter(
        "changed",
        "List what appeared or vanished at this moment, in the forms of `since`. Empty: at any.",
        str,
        "",
    ),
    Parameter(
        "release",
        "List what appeared or vanished with this version, beside all others; in place of "
        "`changed`.",
        str,
        "",
    ),
)
DOCUMENTS = Endpoint(
    name="documents",
    method="GET",
    path="/v1/documents",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Documents",
    summary="Documents that were retrieved: where, how often, cited, and behind bad answers",
    help="Reads all stored queries of that time, which takes some ten seconds a million. "
    "`findings` are documents to do something about, the surest first, at a false-discovery rate "
    "of 5 %; `rows` begins with these and goes on with those retrieved most often. Answers with a "
    "document are compared with answers without it to like questions: those whose best other "
    "document is the same, under the same version.",
    parameters=(
        *_PARAMETERS,
        Parameter("ids", "Also list the ids of all documents that were retrieved.", bool, False),
        LIMIT,
    ),
    answer=DocumentReport,
    problems=(400,),
)
TOP_DOCUMENTS = Endpoint(
    name="topDocuments",
    method="GET",
    path="/v1/documents/top",
    scope="read",
    pipelines="own",
    tag="Documents",
    summary="Documents that are retrieved most in this hour and the last",
    help="Counted as queries come, in bounded memory, without reading the store. Of the first "
    "20,000 queries of an hour each is counted, of others one in 8; `lower` and `upper` hold what "
    "that and the bound cost. It begins anew when ragmon starts and when queries are erased: see "
    "`from`.",
    parameters=(PIPELINE, LIMIT),
    answer=LiveDocumentList,
    problems=(400,),
)
DOCUMENTS_PAGE = Endpoint(
    name="documentsPage",
    method="GET",
    path="/documents",
    scope="read",
    reads="store",
    pipelines="own",
    tag="Pages",
    summary="Documents to do something about, and those retrieved most often, for a browser",
    parameters=_PARAMETERS,
    media=(HTML,),
    problems=(400,),
    shown_problems=(400,),
)

EVERY = (DOCUMENTS, TOP_DOCUMENTS)
"""Those of the API, in the order of the document."""
