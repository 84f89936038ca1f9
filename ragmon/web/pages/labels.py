"""The label queue: answers whose label would teach the judges most, one key for each label."""

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import QueryDetail
from ragmon.asgi import Problem
from ragmon.records import Label
from ragmon.signals.evidence import BELIEVED
from ragmon.web.api import Page
from ragmon.web.page_endpoints import LABEL_FORM, LABEL_QUEUE
from ragmon.web.pages.label_source import LabelSource
from ragmon.web.pages.login import go
from ragmon.web.pages.query import answer_pieces, shown_chunks
from ragmon.web.pages.query_source import QueryPageSource
from ragmon.web.pages.rendering import Renderer
from ragmon.web.permits import Readable, check_pipeline, permit_of

_LABELLER = "human"  # as the API calls whoever gives no name
_MOST_SKIPPED = 2_000
_FAITHFUL = {"faithful": 1.0, "unfaithful": 0.0}
_RELEVANCE = ("relevant", "not_relevant")


class LabelCandidate(NamedTuple):
    """An answer that may be labelled, and why."""

    gain: float  # larger: its label teaches more
    detail: QueryDetail
    reasons: tuple[str, ...]


class OwnLabel(NamedTuple):
    """Opinion of one labeller on an answer; None: none of that kind."""

    faithful: float | None
    relevant_ids: Sequence[str] | None
    scores: Mapping[str, float]  # by custom judge


class LabelSection:
    """Endpoints of the label queue."""

    def __init__(self, source: LabelSource, queries: QueryPageSource, renderer: Renderer) -> None:
        self._source = source
        self._queries = queries
        self._renderer = renderer
        # By labeller and query; kept in memory, so that a restart offers what was skipped again.
        self._skipped: OrderedDict[tuple[str, str], None] = OrderedDict()

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (Page(LABEL_QUEUE, self.queue), Page(LABEL_FORM, self.labelled))

    async def queue(self, request: Request) -> Response:
        """The answer to label next, or the one that was asked for."""
        asked = request.query_params
        pipeline, readable = check_pipeline(request, asked.get("pipeline", ""))
        labeller = _labeller(request)
        candidates = await self._candidates(labeller, pipeline, readable)
        name = asked.get("query", "")
        first = candidates[0] if candidates else None
        detail: QueryDetail | None = None
        if name:
            detail = await self._readable(name, readable)
        elif first:
            detail = await self._source.query(first.detail.record.query_id)
        supports = await self._queries.supports(detail) if detail else ()
        last = await self._last(asked.get("labelled", ""), readable)
        return self._renderer.page(
            "labels.html",
            pipeline=pipeline,
            detail=detail,
            reasons=first.reasons if first and not name else (),
            waiting=len(candidates),
            answer=answer_pieces(detail, supports) if detail else [],
            chunks=shown_chunks(detail, supports) if detail else [],
            own=_own(detail, labeller) if detail else None,
            last=last,
            last_label=_own(last, labeller) if last else None,
            effects=await self._source.effects(pipeline, readable),
            threshold=self._source.threshold,
            questions=self._source.questions(),
        )

    async def labelled(self, request: Request) -> Response:
        """A label, its withdrawal, or none."""
        fields, permit = request.state.form, permit_of(request)
        name, action = fields.get("query", ""), fields.get("label", "")
        pipeline, labeller = fields.get("pipeline", ""), _labeller(request)
        detail = await self._readable(name, permit.pipelines)
        if action == "skip":
            self._skip(labeller, name)
            return go(_address(pipeline))
        if scores := self._scores(action):
            label = Label(query_id=name, labeller=labeller, scores=scores)
        else:
            label = _label(detail, action, labeller, fields)
        await self._source.send(label, request.scope, permit)
        if action in _RELEVANCE or label.scores or label.withdrawn:
            return go(_address(pipeline, query=name))
        return go(_address(pipeline, labelled=name))

    def _scores(self, action: str) -> dict[str, float]:
        """Score by the custom judge whose question an action answers; empty: it answers none."""
        name, _, grade = action.partition("=")
        for question in self._source.questions():
            if question.name == name and (score := question.score(grade)) is not None:
                return {name: score}
        return {}

    async def _readable(self, name: str, readable: Readable | None) -> QueryDetail:
        detail = await self._source.query(name)
        if detail is None or (readable is not None and not readable(detail.record.pipeline)):
            raise Problem(404, f"no query has the id {name[:200]!r}", reason="not_found")
        return detail

    async def _last(self, name: str, readable: Readable | None) -> QueryDetail | None:
        try:
            return await self._readable(name, readable) if name else None
        except Problem:
            return None  # it has expired since

    async def _candidates(
        self, labeller: str, pipeline: str, readable: Readable | None
    ) -> list[LabelCandidate]:
        recent = await self._source.candidates(pipeline, readable)
        ranked = rank(recent, self._source.threshold)
        return [
            candidate
            for candidate in ranked
            if (labeller, candidate.detail.record.query_id) not in self._skipped
        ]

    def _skip(self, labeller: str, name: str) -> None:
        self._skipped[labeller, name] = None
        if len(self._skipped) > _MOST_SKIPPED:
            self._skipped.popitem(last=False)


def rank(details: Sequence[QueryDetail], threshold: float) -> list[LabelCandidate]:
    """Answers that nobody has labelled, the one that teaches most first.

    A label teaches where a judge is near its threshold, where two judges are at odds, and in a
    version of a pipeline that has few labels.
    """
    details = list({detail.record.query_id: detail for detail in details}.values())
    labels = Counter(_place(detail) for detail in details if is_labelled(detail))
    ranked = [
        _candidate(detail, threshold, labels[_place(detail)])
        for detail in details
        if not is_labelled(detail) and not detail.record.error
    ]
    return sorted(ranked, key=lambda one: (-one.gain, -one.detail.record.timestamp))


def _candidate(detail: QueryDetail, threshold: float, labels: int) -> LabelCandidate:
    scores = {
        verdict.judge: verdict.score
        for verdict in detail.verdicts
        if verdict.score is not None and verdict.judge in BELIEVED
    }
    gain, reasons = 1.0 / (2.0 + labels), []
    if scores:
        nearest = min(abs(score - threshold) for score in scores.values())
        gain += max(0.0, 1.0 - nearest / 0.25)
        if nearest <= 0.1:
            reasons.append("a judge is unsure: its score is near the threshold")
    if len(scores) > 1 and (odds := max(scores.values()) - min(scores.values())) >= 0.3:
        gain += 2.0 * odds
        reasons.append("the judges are at odds")
    if not labels:
        reasons.append("nobody has labelled an answer of its version lately")
    return LabelCandidate(gain, detail, tuple(reasons))


def is_labelled(detail: QueryDetail) -> bool:
    """True for an answer that somebody called faithful or not."""
    return any(label.faithful is not None for label in detail.labels)


def _place(detail: QueryDetail) -> tuple[str, str | None]:
    return detail.record.pipeline, detail.record.version


def _labeller(request: Request) -> str:
    name = permit_of(request).name
    return _LABELLER if name == "anonymous" else name


def _own(detail: QueryDetail, labeller: str) -> OwnLabel | None:
    """Opinion of a labeller on an answer; None: none yet."""
    own = [one for one in detail.labels if one.labeller == labeller and not one.withdrawn]
    faithful = next((one.faithful for one in own if one.faithful is not None), None)
    relevant = next((one.relevant_ids for one in own if one.relevant_ids is not None), None)
    scores: dict[str, float] = {}
    for label in sorted(own, key=lambda one: one.timestamp):
        scores |= label.scores
    return OwnLabel(faithful, relevant, scores) if own else None


def _label(detail: QueryDetail, action: str, labeller: str, fields: dict[str, str]) -> Label:
    """The label that somebody's action makes.

    Raises:
        Problem: there is no such action.
    """
    name = detail.record.query_id
    if action == "undo":
        return Label(query_id=name, labeller=labeller, withdrawn=True)
    if action in _FAITHFUL:
        return Label(query_id=name, labeller=labeller, faithful=_FAITHFUL[action])
    if action in _RELEVANCE:
        ticked = action == "relevant"
        chunks = detail.record.chunks or ()
        relevant = [
            chunk.id for at, chunk in enumerate(chunks, 1) if ticked and f"chunk_{at}" in fields
        ]
        return Label(query_id=name, labeller=labeller, relevant_ids=relevant)
    raise Problem(400, "label: choose one of the form", reason="bad_parameter")


def _address(pipeline: str, **asked: str) -> str:
    query = urlencode(
        {name: value for name, value in {"pipeline": pipeline, **asked}.items() if value}
    )
    return f"{LABEL_QUEUE.path}?{query}" if query else LABEL_QUEUE.path
