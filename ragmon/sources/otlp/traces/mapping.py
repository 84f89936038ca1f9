"""A complete trace as queries: pure, no I/O, no clock.

Each field remembers which span and which key it came from, for ``ragmon trace-doctor``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ragmon.records import MAX_TAGS, MAX_TEXT, Chunk, Latency, QueryRecord, Tokens
from ragmon.sources.otlp.reading.documents import chunks_of
from ragmon.sources.otlp.reading.facts import (
    CHAIN,
    EMBEDDING,
    EVALUATOR,
    MODEL,
    OTHER,
    RERANKER,
    RETRIEVER,
    TOOL,
    SourcedValue,
)
from ragmon.sources.otlp.reading.guesses import doubt_of
from ragmon.sources.otlp.spans import Span
from ragmon.sources.otlp.traces.errors import describe_error, is_failed
from ragmon.sources.otlp.traces.log_content import join_content
from ragmon.sources.otlp.traces.model_calls import (
    below,
    counting_tokens,
    each_reply_once,
    is_around,
    model_calls,
    unanswered,
)
from ragmon.sources.otlp.traces.retrieval import retrieval_of
from ragmon.sources.otlp.traces.steps import steps_of
from ragmon.sources.otlp.traces.tree import (
    Node,
    Unit,
    around,
    build,
    everything,
    outermost,
    turns_question_into_answer,
    units,
)

DEFAULT_PIPELINE = "default"
"""Pipeline of traces whose spans name neither a service nor a project."""

_NO_QUERY = ((EVALUATOR, "evaluation"), (EMBEDDING, "embeddings"))
_LONGEST_QUESTION = 1_000  # characters of a message that is taken for one
_SEEKING = (RETRIEVER, EMBEDDING, TOOL)


class FieldOrigin(NamedTuple):
    """Span name and attribute key that a field was read from."""

    span: str
    key: str
    doubt: str = ""  # why it may be another; empty: it says what it is


class MappedQuery(Struct, frozen=True):
    """One query of a trace."""

    record: QueryRecord
    sources: dict[str, FieldOrigin]
    unit: Unit
    models: tuple[Node, ...] = ()  # its model calls

    @property
    def response_ids(self) -> list[str]:
        """Ids that the provider gave its replies."""
        ids = (node.facts.value("response_id") for node in self.models)
        return [response_id for response_id in ids if response_id]


class Trace(Struct, frozen=True):
    """The queries of a trace, and its tree."""

    queries: tuple[MappedQuery, ...]
    tops: tuple[Node, ...]
    circles: int = 0  # parents cut, as they lay below their own children
    left_out: Mapping[bytes, str] = {}  # why log events joined no span, by their ids


def map_trace(spans: Sequence[Span], now: float) -> Trace:
    """The queries of a trace; none when it is something else, such as an indexing run.

    Args:
        spans: of one trace, each once, with the log events that hold content of them.
        now: unix seconds, for spans that have no time.
    """
    joined = join_content(spans)
    tops = build(joined.spans)
    query_units = [unit for unit in units(tops) if _is_query(unit)]
    single = len(query_units) == 1
    queries = tuple(_Mapper(unit, now).query(single) for unit in query_units)
    span_ids = {node.span.span_id for node in everything(tops)}
    circles = sum(node.span.parent_id in span_ids for node in tops)
    return Trace(queries, tuple(tops), circles, joined.left_out)


def reason_for_none(nodes: Sequence[Node]) -> str:
    """The reason why a trace holds no query: evaluation, embeddings, only_logs or no_step."""
    if not nodes:
        return "only_logs"
    roles = {node.role for node in nodes}
    return next((reason for role, reason in _NO_QUERY if role in roles), "no_step")


def _is_query(unit: Unit) -> bool:
    """Something was retrieved or generated, or a chain turned a question into an answer."""
    tops = unit.tops
    if any(outermost(tops, role) for role in (RETRIEVER, RERANKER)) or model_calls(tops):
        return True
    if any(node.role == EMBEDDING for node in everything(tops)):
        return False
    if any(node.facts.value("invoked") for node in outermost(tops, CHAIN)):
        return True  # an agent, however little it tells
    failed = (node for node in tops if node.role == CHAIN and is_failed(node))
    return any(turns_question_into_answer(node) for node in tops) or any(
        node.facts.value("query") is not None and not node.facts.is_step_only for node in failed
    )


class _Mapper:
    """Fills one record, and notes the origin of each field."""

    def __init__(self, unit: Unit, now: float) -> None:
        self._unit = unit
        self._now = now
        self._tops = unit.tops
        self._all = everything(unit.tops)
        self._retrieval = retrieval_of(unit.tops)
        self._models = model_calls(unit.tops)
        self._embeddings = outermost(unit.tops, EMBEDDING, RETRIEVER)
        self._failed = [node for node in unit.tops if is_failed(node)] or unanswered(
            unit.tops, self._models
        )
        self._sources: dict[str, FieldOrigin] = {}

    def query(self, single: bool) -> MappedQuery:
        """The record; ``single`` when its trace holds no other query."""
        top = self._tops[0]
        trace_id = top.span.trace_id.hex()
        span_id = self._unit.span_id.hex()
        start_ns = min(node.span.start_ns for node in self._tops)
        question = _cut(self._question())
        record = QueryRecord(
            query_id=trace_id if single else f"{trace_id}:{span_id}",
            timestamp=start_ns / 1e9 if start_ns else self._now,
            trace_id=trace_id,
            span_id=top.span.span_id.hex(),
            query=question,
            retrieval_query=_cut(self._rewritten(question)),
            embedding_sketch=self._embedding_of(question),
            answer=_cut(self._answer()),
            chunks=self._chunks(),
            steps=steps_of(self._tops, self._retrieval),
            latency_ms=self._latency(),
            error=self._error(),
            tags=self._tags(),
            **self._generation(),
            **self._context(),
        )
        return MappedQuery(record, self._sources, self._unit, tuple(self._models))

    def _note(self, field: str, node: Node, sourced: SourcedValue | None) -> Any:
        if sourced is None:
            return None
        self._sources[field] = FieldOrigin(node.span.name, sourced.key, doubt_of(sourced.value))
        return sourced.value

    def _first(self, field: str, nodes: Iterable[Node], fact: str = "") -> Any:
        """The value of a field (of ``fact``, if given) in the first node that has one."""
        for node in nodes:
            if (sourced := node.facts.find(fact or field)) is not None:
                return self._note(field, node, sourced)
        return None

    def _question(self) -> Any:
        leading = [node for node in self._tops if node.role in (RETRIEVER, MODEL)]
        models = list(reversed(self._models))
        for node in (*leading[:1], *around(self._tops), *self._retrieval.retrievers, *models):
            if (sourced := node.facts.find("query")) is not None:
                if node in self._retrieval.retrievers and (asked := self._written_by_user(sourced)):
                    return self._note("query", *asked)
                return self._question_inside(node, sourced) or self._note("query", node, sourced)
        return None

    def _written_by_user(self, searched: SourcedValue) -> tuple[Node, SourcedValue] | None:
        """The question that the model was asked, where the search had other words.

        A message that holds passages, or what was searched, is a prompt and no question.
        """
        result = self._retrieval.result
        passages = [each.text for each in result.documents if each.text] if result else []
        for node in reversed(self._models) if passages else ():
            asked = node.facts.find("query")
            if asked is None or searched.value in asked.value:
                return None
            if len(asked.value) <= _LONGEST_QUESTION and not any(
                text in asked.value for text in passages
            ):
                return node, asked
        return None

    def _question_inside(self, node: Node, sourced: SourcedValue) -> Any:
        """The query of a retrieval or embedding whose text stands inside this prompt.

        A prompt made from a template holds the question among the retrieved passages.
        """
        if any(step.role in _SEEKING for step in everything([node])):
            return None
        for step in (*self._retrieval.retrievers, *self._embeddings):
            asked = step.facts.find("query")
            if asked is not None and asked.value != sourced.value and asked.value in sourced.value:
                return self._note("query", step, asked)
        return None

    def _rewritten(self, question: str | None) -> str | None:
        """The retrievers' queries where they differ from the question, one a line."""
        if question is None:
            return None
        asked: dict[str, None] = {}
        for node in self._retrieval.steps or self._embeddings:
            sourced = node.facts.find("query")
            if sourced is None:
                continue
            text = str(sourced.value)
            if text.split() != question.split():
                asked[text] = None
                origin = FieldOrigin(node.span.name, sourced.key)
                self._sources.setdefault("retrieval_query", origin)
        return "\n".join(asked) or None

    def _embedding_of(self, question: str | None) -> bytes | None:
        """The sketch of the embedding whose text is the question."""
        for node in self._all if question is not None else ():
            sourced = node.facts.find("embedding_sketch")
            if sourced is not None and node.facts.value("query") == question:
                sketched: bytes = self._note("embedding_sketch", node, sourced)
                return sketched
        return None

    def _answer(self) -> Any:
        """From the root, or from the last model call and what lies between the two."""
        if self._failed:
            return self._first("answer", [node for node in self._failed if node.role == CHAIN])
        spine = [node for node in self._tops if is_around(node)][:1]
        if len(self._tops) > 1 and not all(map(self._is_the_whole, spine)):
            spine = []  # an orphan among others is a step, not the whole
        if self._models:
            last = max(self._models, key=lambda node: node.span.end_ns)
            between = [node for node in last.ancestors() if node.role in (CHAIN, OTHER)]
            inner = sorted(below(last, MODEL), key=lambda node: -node.span.end_ns)
            spine += [*reversed(between), last, *inner]
        elif spine and spine[0].role == OTHER:
            spine += [node for node in spine[0].children if node.role == CHAIN]
        spine += [] if self._models else self._retrieval.retrievers  # it may answer as well
        return self._first("answer", spine)

    def _is_the_whole(self, top: Node) -> bool:
        ends = (node.span.end_ns for node in self._tops)
        return turns_question_into_answer(top) and (
            not top.span.parent_id or top.span.end_ns == max(ends)
        )

    def _chunks(self) -> list[Chunk] | None:
        result = self._retrieval.result
        if result is None:
            return None
        span = result.node.span
        doubt = "its SDK left out attributes or events of this span" if span.lost else ""
        self._sources["chunks"] = FieldOrigin(span.name, result.key, doubt)
        return chunks_of(result.documents)

    def _latency(self) -> Latency:
        """Total, and the union of what ran: retrievers may run at the same time."""
        begin = min(node.span.start_ns for node in self._tops)
        end = max(node.span.end_ns for node in self._tops)
        retrieving = [_interval(node) for node in self._retrieval.steps]
        generating = [_interval(node) for node in self._models]
        retrieval, both = _covered_ms(retrieving), _covered_ms(retrieving + generating)
        return Latency(
            max(0, end - begin) / 1e6,
            retrieval if retrieving else None,
            both - retrieval if generating else None,
        )

    def _error(self) -> str | None:
        if not self._failed:
            return None
        text, where, key = describe_error(self._failed, self._all)
        self._sources["error"] = FieldOrigin(where.span.name, key)
        return text

    def _generation(self) -> dict[str, Any]:
        """Model, tokens and cost of the outermost model calls, or of calls inside them.

        Values that no call has may stand in the output of the whole.
        """
        deepest = each_reply_once([counting_tokens(node) for node in self._models])
        if self._model(deepest) is None:
            deepest += [node for node in self._tops if node.role == CHAIN][:1]
            deepest += [node for node in self._retrieval.retrievers if node.facts.value("answer")]
        models = sorted(deepest, key=lambda node: -node.span.end_ns)
        prompt = self._sum("prompt_tokens", deepest)
        completion = self._sum("completion_tokens", deepest)
        tokens = None
        if prompt is not None or completion is not None:
            tokens = Tokens(prompt, completion)
            kinds = ("prompt_tokens", "completion_tokens")
            counted = [self._sources.pop(kind) for kind in kinds if kind in self._sources]
            self._sources["tokens"] = counted[0]
        return {
            "model": self._model(models) or self._model(everything(models)),
            "tokens": tokens,
            "cost_usd": self._sum("cost_usd", deepest),
        }

    def _model(self, nodes: Iterable[Node]) -> Any:
        """The model that answered, or else the model that was requested."""
        for node in nodes:
            sourced = node.facts.find("model") or node.facts.find("requested_model")
            if sourced is not None:
                return self._note("model", node, sourced)
        return None

    def _sum(self, field: str, nodes: Sequence[Node]) -> Any:
        counting = [node for node in nodes if node.facts.value(field) is not None]
        for node in counting[:1]:
            self._note(field, node, node.facts.find(field))
        return sum(node.facts.value(field) for node in counting) if counting else None

    def _context(self) -> dict[str, Any]:
        """Session, user, pipeline, version and environment."""
        context: dict[str, Any] = {
            field: self._first(field, self._all) for field in ("session_id", "user_id")
        }
        for field in ("version", "environment"):
            context[field] = self._first(field, self._all) or self._resource(field) or None
        context["version"] = context["version"] or ""
        context["pipeline"] = (
            self._resource("service") or self._resource("project") or DEFAULT_PIPELINE
        )
        return context

    def _resource(self, field: str) -> str:
        for node in self._all:
            if value := getattr(node.span.resource, field):
                return str(value)
        return ""

    def _tags(self) -> dict[str, str] | None:
        """Metadata of the first span that has any: the others repeat it, and add their own."""
        tags = self._first("tags", self._all) or {}
        return dict(sorted(tags.items())[:MAX_TAGS]) or None


def _cut(text: Any) -> str | None:
    return None if text is None else str(text)[:MAX_TEXT]


def _interval(node: Node) -> tuple[int, int]:
    return node.span.start_ns, max(node.span.start_ns, node.span.end_ns)


def _covered_ms(intervals: list[tuple[int, int]]) -> float:
    """Length of the union."""
    covered, reached = 0, 0
    for begin, end in sorted(intervals):
        covered += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return covered / 1e6
