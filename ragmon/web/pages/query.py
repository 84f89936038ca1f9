"""One query in full: its answer beside the chunks, its times, and what everybody said of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from ragmon.api_schema import QueryDetail
from ragmon.asgi import Problem
from ragmon.charts.waterfall import TimedStep, waterfall
from ragmon.records import Chunk, Doubt, Latency
from ragmon.web.api import Page
from ragmon.web.page_endpoints import QUERY_PAGE
from ragmon.web.pages.headlines import shown_metric
from ragmon.web.pages.queries import row_of
from ragmon.web.pages.query_source import QueryPageSource, SupportedSentence
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.words import figure
from ragmon.web.permits import permit_of

_MOST_ANSWER = 20_000  # characters that are shown, as are the next two
_MOST_CHUNK = 4_000
_MOST_CHUNKS = 50
_MOST_WORDS = 8  # of the question, by which the same one is looked for
_REASONS = {
    "negation_mismatch": "the context says the opposite",
    "novel_number": "a number that the context lacks",
    "novel_name": "a name that the context lacks",
    "novel_terms": "words that the context lacks",
    "scattered": "no passage holds these words together",
}


class Piece(NamedTuple):
    """A stretch of a text, and what is known of it."""

    text: str
    kind: Literal["plain", "doubted", "supported"] = "plain"
    note: str = ""
    chunk: int | None = None  # position of the chunk that it rests on


class ShownChunk(NamedTuple):
    """A retrieved chunk."""

    rank: int  # from 1
    chunk: Chunk
    is_cited: bool | None  # None: citations were not recorded
    is_relevant: bool | None  # None: nobody said
    pieces: list[Piece]
    shared: list[str]  # words that the answer shares with it


class QuerySection:
    """Endpoint of one query."""

    def __init__(self, source: QueryPageSource, renderer: Renderer) -> None:
        self._source = source
        self._renderer = renderer

    def pages(self) -> Sequence[Page]:
        """Its endpoint."""
        return (Page(QUERY_PAGE, self.query),)

    async def query(self, request: Request) -> Response:
        """The page of one query."""
        query_id = request.path_params["query_id"]
        detail = await self._source.query(query_id)
        readable = permit_of(request).pipelines
        if detail is None or (readable is not None and not readable(detail.record.pipeline)):
            raise Problem(404, f"no query has the id {query_id!r}", reason="not_found")
        supports = await self._source.supports(detail)
        near = await self._source.neighbours(detail)
        record = detail.record
        return self._renderer.page(
            "query.html",
            detail=detail,
            signals=signal_texts(detail.signals),
            record=record,
            row=row_of(detail),
            answer=answer_pieces(detail, supports),
            is_cut=len(record.answer or "") > _MOST_ANSWER,
            chunks=shown_chunks(detail, supports),
            chunks_left_out=max(0, len(record.chunks or ()) - _MOST_CHUNKS),
            near=near,
            waterfall=_waterfall(record.latency_ms),
            trace=self._trace(record.trace_id),
            same_session=_list(record.pipeline, session=record.session_id),
            same_question=_list(
                record.pipeline,
                words=_some_words(record.query),
                until=None if record.query is None else f"{record.timestamp:.6f}",
            ),
            as_json=f"/v1/queries/{quote(query_id, safe='')}",
        )

    def _trace(self, trace_id: str | None) -> str:
        if not trace_id or not self._source.trace_template:
            return ""
        return self._source.trace_template.replace("{trace_id}", quote(trace_id, safe=""))


def signal_texts(signals: Mapping[str, float]) -> dict[str, str]:
    """The signals of one query, each in the unit of its metric."""
    metrics = {name: shown_metric(name) for name in signals}
    return {
        name: figure(metric.factor * signals[name], metric.unit) for name, metric in metrics.items()
    }


def _list(pipeline: str, **asked: str | None) -> str:
    """Address of a list; empty where there is nothing to ask for."""
    if not all(asked.values()):
        return ""
    return "/queries?" + urlencode({"pipeline": pipeline, **asked})


def _some_words(question: str | None) -> str:
    return " ".join((question or "")[:400].split()[:_MOST_WORDS])


def answer_pieces(detail: QueryDetail, supports: Sequence[SupportedSentence]) -> list[Piece]:
    """The answer with its doubted and its supported sentences; where both, it is doubted."""
    answer = (detail.record.answer or "")[:_MOST_ANSWER]
    marks: list[tuple[int, int, Piece]] = [
        (doubt.start, doubt.end, Piece("", "doubted", _doubt_note(doubt, verdict.judge)))
        for verdict in detail.verdicts
        for doubt in verdict.doubts
    ]
    marks += [
        (
            sentence.start,
            sentence.end,
            Piece("", "supported", "shares " + ", ".join(sentence.shared), sentence.chunk),
        )
        for sentence in supports
    ]
    return list(_cut(answer, marks))


def _doubt_note(doubt: Doubt, judge: str) -> str:
    reason = _REASONS.get(doubt.reason, doubt.reason.replace("_", " "))
    return f"{judge}: {reason} ({doubt.detail})"


def _cut(text: str, marks: Sequence[tuple[int, int, Piece]]) -> Iterator[Piece]:
    """The text in pieces; of marks that overlap the first counts, doubts before supports."""
    kept: list[tuple[int, int, Piece]] = []
    for begin, finish, piece in marks:
        start, end = max(0, begin), min(finish, len(text))
        if start < end and all(end <= low or start >= high for low, high, _ in kept):
            kept.append((start, end, piece))
    place = 0
    for start, end, piece in sorted(kept, key=lambda mark: mark[0]):
        if place < start:
            yield Piece(text[place:start])
        yield piece._replace(text=text[start:end])
        place = end
    if place < len(text):
        yield Piece(text[place:])


def shown_chunks(detail: QueryDetail, supports: Sequence[SupportedSentence]) -> list[ShownChunk]:
    """The chunks with what is known of each."""
    record = detail.record
    relevant, known = _relevant(detail)
    cited = None if record.citations is None else set(record.citations)
    shown = []
    for at, chunk in enumerate((record.chunks or ())[:_MOST_CHUNKS]):
        own = [sentence for sentence in supports if sentence.chunk == at]
        marks = [
            (one.chunk_start, one.chunk_end, Piece("", "supported", "the answer rests on this"))
            for one in own
        ]
        shared = dict.fromkeys(word for sentence in own for word in sentence.shared)
        shown.append(
            ShownChunk(
                at + 1,
                chunk,
                None if cited is None else chunk.id in cited,
                chunk.id in relevant if known else None,
                list(_cut((chunk.text or "")[:_MOST_CHUNK], marks)),
                list(shared)[:12],
            )
        )
    return shown


def _relevant(detail: QueryDetail) -> tuple[set[str], bool]:
    """Ids of relevant chunks, and whether anybody said which are."""
    record = detail.record
    grades = dict(record.grades or {}) | dict.fromkeys(record.relevant_ids or (), 1.0)
    known = record.grades is not None or record.relevant_ids is not None
    for label in sorted(detail.labels, key=lambda label: label.timestamp):
        if label.relevant_ids is not None or label.grades is not None:
            grades = dict.fromkeys(label.relevant_ids or (), 1.0) | dict(label.grades or {})
            known = True
    useful = [verdict.useful for verdict in detail.verdicts if verdict.useful is not None]
    if not known and useful:
        return set(useful[-1]), True
    return {key for key, grade in grades.items() if grade > 0}, known


def _waterfall(latency: Latency | None) -> str:
    """The times that were recorded: generation follows retrieval."""
    if latency is None or all(
        stage is None for stage in (latency.total, latency.retrieval, latency.generation)
    ):
        return ""
    steps = [] if latency.total is None else [TimedStep("total", 0.0, latency.total / 1e3)]
    depth, begin = len(steps), 0.0
    for kind, (name, stage) in enumerate(
        (("retrieval", latency.retrieval), ("generation", latency.generation)), 1
    ):
        if stage is not None:
            steps.append(TimedStep(name, begin, stage / 1e3, depth=depth, kind=kind))
            begin += stage / 1e3
    return waterfall(steps, title="Time of retrieval and generation")
