"""Recent traces: what was read of each, what is missing, and what to add to the application."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import FieldExplanation, MissingField, TraceExplanation
from ragmon.asgi import Problem
from ragmon.records import Tokens
from ragmon.web.api import Page
from ragmon.web.page_endpoints import TRACES
from ragmon.web.pages.rendering import Renderer
from ragmon.web.traces import TraceSource

_DEFAULT = 20
_MOST = 100
_MOST_IDS = 5  # of the chunks of a query


class Gap(NamedTuple):
    """A field that traces lack, and the change that mends most of them."""

    field: str
    queries: int
    example: MissingField


class TracePages:
    """Endpoint of the page."""

    def __init__(self, source: TraceSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(TRACES, self.traces),)

    async def traces(self, request: Request) -> Response:
        """The page: first what is missing in all, then trace by trace, the newest first."""
        last = _last(request.query_params.get("last") or str(_DEFAULT))
        traces = (await self._source.recent_traces(last))[::-1]
        return self._renderer.page(
            "traces.html",
            traces=traces,
            last=last,
            choices=[(str(count), f"/traces?last={count}") for count in (5, _DEFAULT, _MOST)],
            queries=sum(len(trace.queries) for trace in traces),
            gaps=gaps_of(traces),
            value_text=value_text,
        )


def _last(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _MOST:
        detail = f"last: {text[:40]!r} is not a number from 1 to {_MOST}"
        raise Problem(400, detail, reason="bad_parameter")
    return int(text)


def gaps_of(traces: Sequence[TraceExplanation]) -> list[Gap]:
    """Missing fields of all traces, the most frequent first."""
    missing = [each for trace in traces for query in trace.queries for each in query.missing]
    counts = Counter(each.field for each in missing)
    newest = {each.field: each for each in reversed(missing)}
    return [Gap(field, count, newest[field]) for field, count in counts.most_common()]


def value_text(field: FieldExplanation) -> str:
    """A value as one text."""
    value = field.value
    if isinstance(value, Tokens):
        counts = asdict(value)
        return ", ".join(f"{kind} {n}" for kind, n in counts.items() if n is not None)
    if isinstance(value, list):
        ids = ", ".join(chunk.id for chunk in value[:_MOST_IDS])
        return f"{len(value)} chunks: {ids}" if value else "no chunks"
    return str(value)
