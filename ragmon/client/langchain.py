"""Callback handler of LangChain and LangGraph.

    chain.invoke(question, config={"callbacks": [RagmonCallback(monitor, pipeline="helpdesk")]})

The outermost run is a query, its run id the query's id. Runs inside it give the documents, the
times of the stages, the model and its tokens. A retriever that is called by itself is a query
without an answer; a model that is called by itself is none.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from ragmon.client.arguments import QueryFields
from ragmon.client.clock import ClientClock, ProcessClock
from ragmon.client.monitor import Monitor
from ragmon.client.timing import TimedQuery

if TYPE_CHECKING:
    from typing_extensions import Unpack

_QUESTION = ("question", "query", "input", "user_input", "prompt")
_ANSWER = ("answer", "output", "result", "response", "text")
_MAX_RUNS = 10_000  # of runs whose end was never called


class _Root:
    """The outermost run, and what the runs inside it have told."""

    def __init__(self, query: TimedQuery) -> None:
        self.query = query
        self.began: dict[UUID, float] = {}
        self.documents: list[Any] | None = None
        self.retrieval_query: str | None = None
        self.tokens = {"prompt": 0, "completion": 0}


class RagmonCallback(BaseCallbackHandler):  # type: ignore[misc]
    """Logs each outermost run as a query.

    Args:
        monitor: logs the queries.
        clock: for tests.
        **fields: of every query, such as ``pipeline``; see ``QueryFields``.
    """

    run_inline = True  # It takes microseconds: no thread of its own is worth it.

    def __init__(
        self, monitor: Monitor, clock: ClientClock | None = None, **fields: Unpack[QueryFields]
    ) -> None:
        super().__init__()
        self._monitor = monitor
        self._clock = clock or ProcessClock()
        self._fields = fields
        self._runs: dict[UUID, _Root] = {}
        self._lock = threading.Lock()

    def on_chain_start(
        self, _: Any, inputs: Any, *, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        """Begin a query, or a step of one."""
        self._start(run_id, parent_run_id, _question(inputs))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **more: Any) -> None:
        """Log the query, if this was its outermost run; that of a stream has its inputs here."""
        root = self._end(run_id, None)
        if root is not None:
            root.query.complete(query=_question(more.get("inputs")))
            self._finish(root, answer=_answer(outputs))

    def on_retriever_start(
        self, _: Any, query: str, *, run_id: UUID, parent_run_id: UUID | None = None, **__: Any
    ) -> None:
        """Begin the retrieval stage."""
        root = self._start(run_id, parent_run_id, query)
        if root is not None:
            root.retrieval_query = query

    def on_retriever_end(self, documents: Sequence[Any], *, run_id: UUID, **_: Any) -> None:
        """Record the documents."""
        root = self._runs.get(run_id)
        if root is not None:
            root.documents = [*(root.documents or ()), *documents]
            if self._end(run_id, "retrieval") is not None:
                self._finish(root)

    def on_chat_model_start(self, *_: Any, run_id: UUID, **more: Any) -> None:
        """Begin the generation stage."""
        if more.get("parent_run_id") is not None:
            self._start(run_id, more["parent_run_id"], None)

    on_llm_start = on_chat_model_start

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Record the model and its tokens."""
        root = self._runs.get(run_id)
        if root is not None:
            _read_usage(root, response)
            self._end(run_id, "generation")

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        """Record the error, if it left the outermost run."""
        root = self._end(run_id, None)
        if root is not None:
            root.query.failed(error)
            self._finish(root)

    on_retriever_error = on_chain_error
    on_llm_error = on_chain_error

    def _start(self, run_id: UUID, parent: UUID | None, question: str | None) -> _Root | None:
        """Note a run; a parent that is not known had no callback, or was too long ago."""
        with self._lock:
            root = self._runs.get(parent) if parent is not None else self._begin(run_id, question)
            if root is not None:
                root.began[run_id] = self._clock.monotonic()
                self._runs[run_id] = root
            return root

    def _begin(self, run_id: UUID, question: str | None) -> _Root:
        while len(self._runs) >= _MAX_RUNS:
            del self._runs[next(iter(self._runs))]
        fields = {"query": question, **self._fields}
        query = TimedQuery(self._monitor.log_query, str(run_id), self._clock, fields)
        query.begin()
        return _Root(query)

    def _end(self, run_id: UUID, stage: str | None) -> _Root | None:
        """Forget a run; the root, if this was the outermost one."""
        with self._lock:
            root = self._runs.pop(run_id, None)
            if root is None:
                return None
            began = root.began.pop(run_id)
            if stage is not None:
                root.query.spent(stage, self._clock.monotonic() - began)
            if str(run_id) != root.query.query_id:
                return None
            for inner in root.began:  # Of runs that were cancelled, and end no more.
                self._runs.pop(inner, None)
            return root

    def _finish(self, root: _Root, answer: str | None = None) -> None:
        tokens = root.tokens if any(root.tokens.values()) else None
        root.query.complete(answer=answer, retrieved_docs=root.documents, tokens=tokens)
        if root.retrieval_query != root.query.value("query"):
            root.query.complete(retrieval_query=root.retrieval_query)
        if root.query.recorded:
            root.query.finish()


def _read_usage(root: _Root, response: Any) -> None:
    """Add the tokens of one call of a model."""
    message = None
    for generations in response.generations:
        for generation in generations:
            message = getattr(generation, "message", message)
    output = response.llm_output or {}
    usage = getattr(message, "usage_metadata", None) or output.get("token_usage") or {}
    root.tokens["prompt"] += usage.get("input_tokens", usage.get("prompt_tokens")) or 0
    root.tokens["completion"] += usage.get("output_tokens", usage.get("completion_tokens")) or 0
    model = output.get("model_name") or getattr(message, "response_metadata", {}).get("model_name")
    if model is not None:
        root.query.record(model=model)


def _question(inputs: Any) -> str | None:
    return _text(inputs, _QUESTION, "human") or None


def _answer(outputs: Any) -> str | None:
    return _text(outputs, _ANSWER, "ai")


def _text(value: Any, names: tuple[str, ...], kind: str) -> str | None:
    """Text, a message, the last message of a kind, or one of these by name."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        named = next((value[name] for name in names if value.get(name) is not None), None)
        return _text(value.get("messages") if named is None else named, (), kind)
    if isinstance(value, (list, tuple)):
        messages = (each for each in reversed(value) if getattr(each, "type", None) == kind)
        return _content(next(messages, None))
    return _content(value)


def _content(message: Any) -> str | None:
    """Text of a message, also of one in blocks."""
    content = getattr(message, "content", None)
    if isinstance(content, list):
        blocks = (each if isinstance(each, str) else each.get("text", "") for each in content)
        content = "".join(blocks)
    return content if isinstance(content, str) else None
