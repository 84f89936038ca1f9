"""Queries: a form whose address holds its state, and the queries that fit."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import QueryDetail, QueryList
from ragmon.asgi import Problem
from ragmon.records import Feedback
from ragmon.signals.evidence import BELIEVED
from ragmon.web.api import Page
from ragmon.web.page_endpoints import QUERY_LIST
from ragmon.web.pages.query_source import QueryPageSource
from ragmon.web.pages.rendering import Renderer
from ragmon.web.parameters import selection_from
from ragmon.web.permits import check_pipeline
from ragmon.web.query_endpoints import FORMATS, ORDERS, TAGS

_ON_A_PAGE = 30
_MODES = ("retrieval", "ranking", "generation", "none", "unknown")
_RATINGS = ("positive", "negative", "neutral", "none")


class Field(NamedTuple):
    """A field of the form."""

    name: str
    title: str
    choices: tuple[str, ...] = ()  # none: any text
    hint: str = ""


FIELDS = (
    Field("words", "Words in question or answer", hint="refund policy"),
    Field("pipeline", "Pipeline"),
    Field("version", "Version"),
    Field("tag", "Tag", hint="tenant=acme"),
    Field("failing", "Failing in", hint="miss,error"),
    Field("since", "Since", hint="24h"),
    Field("order", "First the", ORDERS),
    Field("failure_mode", "Failure mode", _MODES),
    Field("feedback", "Feedback", _RATINGS),
    Field("min_score", "Faithfulness from", hint="0"),
    Field("max_score", "to", hint="0.5"),
    Field("environment", "Environment"),
    Field("model", "Model"),
    Field("session", "Session"),
    Field("user", "User"),
    Field("trace", "Trace id"),
    Field("until", "Until", hint="1h"),
)
"""Fields in the order of the form; blank ones ask for nothing."""
_USUAL = 7  # of them; the others are folded while they are blank


class ListedQuery(NamedTuple):
    """A row of the list."""

    detail: QueryDetail
    score: float | None  # faithfulness by whoever is believed most, as far as signals tell
    rating: float | None
    total_s: float | None


class QueryListSection:
    """Endpoint of the list."""

    def __init__(self, source: QueryPageSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(QUERY_LIST, self.queries),)

    async def queries(self, request: Request) -> Response:
        """The form, and the queries that fit; what is wrong with the form is said on the page."""
        filled = {name: text for name, text in request.query_params.items() if text.strip()}
        pipeline, readable = check_pipeline(request, filled.get("pipeline", ""))
        listed, refusal = QueryList(queries=[]), ""
        try:
            selection = selection_from(
                _asked(filled), (pipeline, readable), self._source.now(), _ON_A_PAGE
            )
            listed = await self._source.queries(selection)
        except ValueError as error:
            refusal = str(error)
        except Problem as problem:
            if problem.status != 400:
                raise
            refusal = str(problem)
        own = {name: text for name, text in filled.items() if name != "cursor"}
        return self._renderer.page(
            "queries.html",
            400 if refusal else 200,
            refusal=refusal,
            fields=FIELDS,
            usual=_USUAL,
            is_unfolded=any(field.name in filled for field in FIELDS[_USUAL:]),
            filled=filled,
            hidden={name: text for name, text in own.items() if name.startswith(TAGS)},
            rows=[row_of(detail) for detail in listed.queries],
            listed=listed,
            first=_address("/queries", own) if "cursor" in filled else "",
            following=_address("/queries", own | {"cursor": listed.next_cursor})
            if listed.next_cursor
            else "",
            exports=[] if refusal else _exports(_asked(own)),
            as_json="" if refusal else _address("/v1/queries", _asked(filled)),
        )


def _asked(filled: Mapping[str, str]) -> dict[str, str]:
    """Parameters of the API, which has a name for each tag."""
    asked = {name: text for name, text in filled.items() if name != "tag"}
    if tag := filled.get("tag"):
        key, equals, value = tag.partition("=")
        if not key or not equals:
            detail = f"tag: {tag[:100]!r} is not KEY=VALUE, such as tenant=acme"
            raise Problem(400, detail, reason="bad_parameter")
        asked[TAGS + key] = value
    return asked


def _exports(asked: Mapping[str, str]) -> list[tuple[str, str]]:
    """Forms of a file, each with its address."""
    return [(form, _address("/v1/export", {**asked, "format": form})) for form in FORMATS]


def _address(path: str, filled: Mapping[str, str | None]) -> str:
    return f"{path}?{urlencode(filled)}" if filled else path


def row_of(detail: QueryDetail) -> ListedQuery:
    """A query as a row."""
    signals, latency = detail.signals, detail.record.latency_ms
    scores = {verdict.judge: verdict.score for verdict in detail.verdicts}
    total = None if latency is None else latency.total
    believed = (signals.get("faithfulness/human"), *(scores.get(judge) for judge in BELIEVED))
    return ListedQuery(
        detail,
        next((score for score in believed if score is not None), None),
        detail.feedback.rating if isinstance(detail.feedback, Feedback) else detail.feedback,
        None if total is None else total / 1e3,
    )
