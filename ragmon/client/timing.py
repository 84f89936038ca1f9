"""Times the stages of one query as they happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ragmon.client.arguments import QueryFields
from ragmon.client.clock import ClientClock

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


_CONTENT = ("query", "answer", "retrieved_docs")


class Stage:
    """Adds the time spent inside a ``with`` block to its stage; may be entered again."""

    def __init__(self, clock: ClientClock, spent_ms: dict[str, float], name: str) -> None:
        self._clock = clock
        self._spent_ms = spent_ms
        self._name = name
        self._began = 0.0

    def __enter__(self) -> Self:
        self._began = self._clock.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        elapsed_ms = (self._clock.monotonic() - self._began) * 1000.0
        self._spent_ms[self._name] = self._spent_ms.get(self._name, 0.0) + elapsed_ms


class TimedQuery:
    """One query under way; it is logged when its ``with`` block ends.

    An exception of the application passes through unchanged and is recorded as ``error``.

    Args:
        log: ``Monitor.log_query``.
        query_id: its id, unless ``log`` cannot use it.
        clock: measures it.
        fields: further arguments of ``log``.
    """

    def __init__(
        self, log: Callable[..., str], query_id: str, clock: ClientClock, fields: Mapping[str, Any]
    ) -> None:
        self._log = log
        self._clock = clock
        self._fields = dict(fields)
        self._spent_ms: dict[str, float] = {}
        self._began = 0.0
        self.query_id = query_id
        """To hand to the user, whose feedback will name it."""

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self.failed(error)
        self.finish()

    def begin(self) -> None:
        """Take the time; a ``with`` block does it."""
        self._fields.setdefault("timestamp", self._clock.now())
        self._began = self._clock.monotonic()

    def finish(self) -> None:
        """Log the query; a ``with`` block does it."""
        total_ms = (self._clock.monotonic() - self._began) * 1000.0
        self._fields.setdefault("latency_ms", {"total": total_ms, **self._spent_ms})
        self._fields["query_id"] = self.query_id
        self.query_id = self._log(**self._fields)

    @property
    def recorded(self) -> bool:
        """True once there is a question, an answer or documents."""
        return any(self._fields.get(name) is not None for name in _CONTENT)

    def asked(self, query: str) -> None:
        """Record the question."""
        self._fields["query"] = query

    def failed(self, error: str | BaseException) -> None:
        """Record an error; a later one replaces it."""
        self._fields["error"] = error

    def value(self, name: str) -> Any:
        """A field as recorded so far."""
        return self._fields.get(name)

    def complete(self, **fields: Any) -> None:
        """Record what has not been recorded before."""
        for name, value in fields.items():
            if self._fields.get(name) is None:
                self._fields[name] = value

    def spent(self, stage: str, seconds: float) -> None:
        """Add time to a stage, ``retrieval`` or ``generation``, that was measured elsewhere."""
        self._spent_ms[stage] = self._spent_ms.get(stage, 0.0) + seconds * 1000.0

    def retrieval(self) -> Stage:
        """``with q.retrieval():`` around the search."""
        return Stage(self._clock, self._spent_ms, "retrieval")

    def generation(self) -> Stage:
        """``with q.generation():`` around the model."""
        return Stage(self._clock, self._spent_ms, "generation")

    def retrieved(self, documents: Any) -> None:
        """Record the documents found, best first; they are read when the block ends.

        Args:
            documents: in any form that ``Monitor.log_query`` takes.
        """
        self._fields["retrieved_docs"] = documents

    def answered(self, answer: Any, citations: Any = None) -> None:
        """Record the answer, and the ids of the chunks it rests on."""
        self._fields["answer"] = answer
        self._fields["citations"] = citations

    def record(self, **fields: Unpack[QueryFields]) -> None:
        """Record any other field of ``Monitor.log_query``: ``model``, ``tokens``, and the like."""
        self._fields.update(fields)
