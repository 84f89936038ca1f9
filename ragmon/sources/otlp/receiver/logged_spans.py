"""Spans that a source reads from a log, and commits itself together with its position."""

from collections.abc import Sequence
from typing import Literal

from ragmon.memory import MemoryBudget
from ragmon.sources.otlp.receiver.assembly import TraceSizes
from ragmon.sources.otlp.receiver.intake import SpanIntake
from ragmon.sources.otlp.receiver.worker import MappingWorker
from ragmon.sources.otlp.wire import json, protobuf
from ragmon.stores.protocols import SpanRow

_SOURCE = "otlp_spans"


class LoggedSpans:
    """See ``ragmon.sources.SpanSink`` for what the methods promise."""

    def __init__(
        self, worker: MappingWorker, intake: SpanIntake, memory: MemoryBudget, most: int
    ) -> None:
        """Make it.

        Args:
            worker: that maps them.
            intake: that packs them.
            memory: reserved of, while a message is decoded.
            most: spans of one message.
        """
        self._worker = worker
        self._intake = intake
        self._memory = memory
        self._most = most

    @property
    def is_behind(self) -> bool:
        """True while so many spans wait to be mapped that a source should pause."""
        return self._worker.is_behind

    def decode(self, body: bytes, encoding: Literal["json", "protobuf"]) -> list[SpanRow]:
        """Spans of an ``ExportTraceServiceRequest``, as they are stored; the rest is counted.

        Raises:
            RecordError: it is no such request, or holds too much.
            MemoryLimitError: it would take too much memory.
        """
        decode = json.decode if encoding == "json" else protobuf.decode
        sizes = TraceSizes(self._worker.assembly)
        rows: list[SpanRow] = []
        with self._memory.open() as memory:
            for decoded in decode(body, self._most, memory):
                rows += sizes.admit(self._intake.packed(decoded), decoded)
                self._intake.count(_SOURCE, decoded, {})
        return rows

    def deliver(self, rows: Sequence[SpanRow]) -> None:
        """Take in spans that are durable now; called on the writer's thread only."""
        self._worker.deliver(rows)
        self._intake.accept(_SOURCE, rows)
