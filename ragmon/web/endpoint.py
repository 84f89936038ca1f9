"""An endpoint of the HTTP API as a value."""

from typing import Any, Literal

from msgspec import Struct

Scope = Literal["open", "probe", "ingest", "read", "admin"]
"""Scope that a token needs; open needs none, probe none unless ``auth.protect_metrics`` is set."""

Reach = Literal["all", "own", "none"]
"""Pipelines behind an answer, for tokens that may use some only: ``all`` refuses such a token,
``own`` leaves out what it may not see, ``none`` has nothing of any pipeline."""

JSON = "application/json"
NDJSON = "application/x-ndjson"
PROTOBUF = "application/x-protobuf"
OPENMETRICS = "application/openmetrics-text"
HTML, TEXT = "text/html", "text/plain"


class Parameter(Struct, frozen=True):
    """One parameter of the query string, or of the path when the path names it."""

    name: str
    help: str
    type: Any = str
    default: Any = None


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
    reads: Literal["", "store", "windows"] = ""  # of the limited reads; empty: it is cheap
    personal: bool = False  # its path names a person, which the audit log leaves out
    problems: tuple[int, ...] = ()  # beside those that every path may answer

    @property
    def is_change(self) -> bool:
        """True for what operators change: each such request goes to the audit log."""
        return self.method not in ("GET", "HEAD") and self.scope != "ingest"
