"""An endpoint of the HTTP API as a value, and parameters that several have."""

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

Scope = Literal["open", "probe", "metrics", "ingest", "read", "admin"]
"""Scope that a token needs; open needs none, probe and metrics none unless
``auth.protect_probes`` and ``auth.protect_metrics`` are set."""

Reach = Literal["all", "own", "none"]
"""Pipelines behind an answer, for tokens that may use some only: ``all`` refuses such a token,
``own`` leaves out what it may not see, ``none`` has nothing of any pipeline."""

JSON = "application/json"
NDJSON = "application/x-ndjson"
PROTOBUF = "application/x-protobuf"
OPENMETRICS = "application/openmetrics-text"
METRIC_FAMILIES = "application/vnd.google.protobuf"
HTML, TEXT = "text/html", "text/plain"
FORM = "application/x-www-form-urlencoded"


class Parameter(Struct, frozen=True):
    """One parameter of the query string, or of the path when the path names it."""

    name: str
    help: str
    type: Any = str
    default: Any = None


MOST_LISTED = 1_000
PIPELINE = Parameter("pipeline", "Only this pipeline; empty for all.", str, "")
LIMIT = Parameter("limit", "Entries at most.", Annotated[int, Meta(ge=1, le=MOST_LISTED)], 50)
SINCE = Parameter(
    "since", "Start: Unix seconds, RFC 3339, or how long ago, such as `1h`. Empty: no limit.", str
)


class Endpoint(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    name: str  # unique; operationId of the document
    method: str
    path: str  # as Starlette writes it: {name}, or {name:path} where it may hold slashes
    scope: Scope
    pipelines: Reach = "all"
    tag: str
    summary: str
    help: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Any = None  # type of the request, None: no body
    body_media: tuple[str, ...] = (JSON,)
    answer: Any = None  # type of a JSON answer, None: text or bytes
    media: tuple[str, ...] = (JSON,)  # of the answer
    status: int = 200  # of success
    may_go_on: bool = False  # then the status is 202, with the same form of answer
    reads: Literal["", "store", "windows"] = ""  # of the limited reads; empty: it is cheap
    personal: bool = False  # its path names a person, which the audit log leaves out
    is_form: bool = False  # sent by one of our own pages, with their token
    problems: tuple[int, ...] = ()  # beside those that every path may answer
    shown_problems: tuple[int, ...] = ()  # of these, those that a page itself shows

    @property
    def asked(self) -> tuple[Parameter, ...]:
        """The parameters of the query string."""
        return tuple(each for each in self.parameters if not self.has_in_path(each))

    def has_in_path(self, parameter: Parameter) -> bool:
        """True for a parameter that the path names."""
        return re.search(rf"{{{re.escape(parameter.name)}[}}:]", self.path) is not None

    @property
    def is_page(self) -> bool:
        """True for what people look at."""
        return HTML in self.media

    @property
    def is_change(self) -> bool:
        """True for what operators change: each such request goes to the audit log."""
        return self.method not in ("GET", "HEAD") and self.scope != "ingest"
