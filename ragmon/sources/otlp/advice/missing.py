"""Fields that a query's trace does not record, and the change that would provide each."""

from collections.abc import Iterable, Sequence

from ragmon.api_schema import MissingField
from ragmon.sources.otlp.advice.frameworks import CONTENT, line_for
from ragmon.sources.otlp.advice.unread import (
    UnreadAttribute,
    hidden_attribute,
    number_beside,
    unread_attribute,
)
from ragmon.sources.otlp.reading.facts import EMBEDDING, MODEL, RERANKER, RETRIEVER
from ragmon.sources.otlp.traces.errors import is_failed
from ragmon.sources.otlp.traces.mapping import MappedQuery
from ragmon.sources.otlp.traces.tree import Node, everything, outermost

_TEXTS = {
    "openinference": "unset OPENINFERENCE_HIDE_INPUTS and OPENINFERENCE_HIDE_OUTPUTS",
    "traceloop": "unset TRACELOOP_TRACE_CONTENT=false",
    "gen_ai": "content is opt-in: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT to "
    "span_only, or to event_only and export logs to ragmon too",
    "haystack": "set HAYSTACK_CONTENT_TRACING_ENABLED=true",
    "ai": "set recordInputs and recordOutputs in experimental_telemetry",
    "": "record the input and output of the root span",
}
_SETTINGS = {
    "session_id": "set the span attribute session.id (OpenInference: using_session; "
    "Langfuse: session_id; Traceloop: set_association_properties; MLflow: a tag session_id)",
    "user_id": "set the span attribute user.id",
    "version": "set OTEL_RESOURCE_ATTRIBUTES=service.version=…",
    "environment": "set OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=…",
    "model": "instrument the model client (for example openinference-instrumentation-openai)",
    "tokens": "ask the model for usage (OpenAI streams: stream_options={'include_usage': true})",
}
_NO_RETRIEVER = "instrument the retriever, or the vector database client"
_NO_SCORE = "put the score into the documents' metadata as `score`"


def missing_fields(query: MappedQuery) -> list[MissingField]:
    """The missing fields; of a failed call, nothing that only an answer would have had."""
    return [*_Missing(query).fields()]


class _Missing:
    """The fields that one query lacks."""

    def __init__(self, query: MappedQuery) -> None:
        self._record = query.record
        self._tops = query.unit.tops
        self._nodes = everything(query.unit.tops)
        self._models = [node for node in self._nodes if node.role == MODEL]
        self._retrievers = outermost(self._tops, RETRIEVER) or outermost(self._tops, RERANKER)
        self._spans = [node.span for node in self._nodes if node.role != EMBEDDING]
        self._hidden = hidden_attribute(self._spans)

    def fields(self) -> Iterable[MissingField]:
        """Each with its advice."""
        record = self._record
        if record.query is None:
            yield self._text("query", self._tops)
        if record.answer is None and record.error is None:
            yield self._text("answer", self._tops)
        if record.chunks is None:
            yield from self._chunks()
        elif any(chunk.score is None for chunk in record.chunks):
            spans = [node.span for node in self._retrievers]
            yield self._missing("chunks.score", _NO_SCORE, self._retrievers, number_beside(spans))
        for field, advice in _SETTINGS.items():
            if self._is_due(field) and getattr(record, field) in (None, ""):
                yield self._setting(field, advice)

    def _is_due(self, field: str) -> bool:
        """False for what a query without a model call, or with one that failed, cannot have."""
        if field == "tokens" and self._record.error is not None:
            return any(not is_failed(node) for node in self._models)
        if field in ("model", "tokens"):
            return bool(self._models) or bool(self._record.answer)
        return True

    def _text(self, field: str, nodes: Sequence[Node]) -> MissingField:
        if self._hidden is not None:
            return self._missing(field, self._texts(), nodes, self._hidden, line_of=CONTENT)
        unread = unread_attribute(field, self._spans)
        return self._missing(field, self._texts(), nodes, unread, line_of=CONTENT)

    def _chunks(self) -> Iterable[MissingField]:
        if self._retrievers and all(map(is_failed, self._retrievers)):
            return  # it found nothing because it failed
        if not self._retrievers and self._record.error is not None and not self._models:
            return  # it failed before it came to that
        if self._retrievers:
            yield self._text("chunks", self._retrievers)
            return
        unread = unread_attribute("chunks", self._spans)
        yield self._missing("chunks", _NO_RETRIEVER, self._nodes, unread)

    def _setting(self, field: str, advice: str) -> MissingField:
        nodes = self._models if field in ("model", "tokens") else self._nodes
        unread = unread_attribute(field, self._spans)
        return self._missing(field, advice, nodes or self._nodes, unread)

    def _missing(
        self,
        field: str,
        advice: str,
        nodes: Sequence[Node],
        unread: UnreadAttribute | None,
        line_of: str = "",
    ) -> MissingField:
        """One field.

        Args:
            field: its name.
            advice: where no attribute may hold it.
            nodes: that should have recorded it.
            unread: attribute that may hold it.
            line_of: name of the line, where it is another than the field's.
        """
        is_own = unread is not None and unread is not self._hidden
        scopes = [] if is_own else [node.span.scope for node in (*nodes, *self._nodes)]
        language = self._tops[0].span.resource.language
        line, framework = line_for(line_of or field, scopes, language)
        if line_of == CONTENT and field == "chunks" and not framework:
            line, framework = line_for("chunks", [], language)
        if unread is not None:
            where = f"`{unread.key}` of the span `{unread.span}`"
            advice = f"{where}: {unread.why}" + ("" if is_own else f"; {advice}")
        return MissingField(
            field=field,
            advice=advice,
            span=unread.span if unread else None,
            key=unread.key if unread else None,
            line=line or None,
            framework=framework or None,
        )

    def _texts(self) -> str:
        keys = {key.partition(".")[0] for node in self._nodes for key in node.span.attributes}
        dialect = next((begin for begin in _TEXTS if begin in keys), "")
        return _TEXTS["" if dialect == "openinference" and self._hidden is None else dialect]
