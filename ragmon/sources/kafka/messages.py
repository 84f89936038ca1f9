"""Messages of a topic to what one commit holds: good ones are kept, bad ones are set aside."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragmon.decode import Decoder
from ragmon.errors import MemoryLimitError, RecordError
from ragmon.event_time import Bounds, event_time
from ragmon.mapping import mapping_of
from ragmon.quarantine import AGES, LineContent, LineKind, explain, line_item
from ragmon.records import UNSTAMPED, Feedback, Label, QueryRecord, Verdict
from ragmon.sources import SourceContext
from ragmon.sources.kafka.log import LogMessage
from ragmon.sources.kafka.options import MESSAGE_BYTES, Options
from ragmon.stores.protocols import SpanRow
from ragmon.stores.quarantine import QuarantinedItem

KIND_HEADER = "ragmon-kind"
_MOST_QUARANTINED = 100  # of one batch: a topic of another form must not push out the rest
_SHOWN_BYTES = 1_000  # of what cannot be tried again
_MOST_KEY = 256  # characters of a key that stands for a missing id


class MessageRefusal(NamedTuple):
    """A message that is left out."""

    partition: int
    offset: int
    error: RecordError
    text: str  # with its place, for people


class MessageBatch(Struct):
    """Contents of messages, to be committed together with the places after them."""

    records: list[QueryRecord] = []
    changes: list[Feedback | Label | Verdict] = []
    spans: list[SpanRow] = []
    quarantined: list[QuarantinedItem] = []
    refusals: list[MessageRefusal] = []
    last: dict[int, LogMessage] = {}  # by partition
    size_bytes: int = 0
    unkeyed: int = 0


class MessageDecoder:
    """Decodes the messages of one source; for one thread."""

    def __init__(self, options: Options, context: SourceContext) -> None:
        self._options = options
        self._context = context
        self._mapping = mapping_of(options.mapping, "queries")
        self._queries: Decoder[QueryRecord] = Decoder(QueryRecord)
        self._kinds: Mapping[bytes, tuple[LineKind, Callable[..., Any]]] = {
            b"feedback": ("feedback", Decoder(Feedback)),
            b"label": ("labels", Decoder(Label)),
        }

    def batch(
        self, messages: Iterable[LogMessage], is_known: Callable[[int, int], bool]
    ) -> MessageBatch:
        """Contents of one commit.

        Args:
            messages: in the order of their offsets in each partition.
            is_known: tells by partition and offset whether a message was read before.

        Raises:
            MemoryLimitError: there is no memory for it now.
        """
        batch = MessageBatch()
        now = self._context.clock.now()
        bounds = Bounds(now - self._context.retention_s, now + self._context.max_skew_s)
        queries: list[LogMessage] = []
        for message in messages:
            partition = message.partition()
            if is_known(partition, message.offset()):
                continue
            batch.last[partition] = message
            value = message.value()
            if value is None:
                self._refuse(batch, message, _tombstone(), None, now)
                continue
            batch.size_bytes += len(value)
            batch.unkeyed += not message.key()
            headers = message.headers()
            if len(value) > MESSAGE_BYTES:
                self._refuse(batch, message, _too_large(value), None, now)
            elif self._options.format != "queries":
                self._add_spans(batch, message, value, now)
            elif headers and (kind := _kind(headers)) not in (None, b"query"):
                self._add_change(batch, message, kind or b"", now, bounds)
            else:
                queries.append(message)
        self._add_queries(batch, queries, now, bounds)
        return batch

    def _add_queries(
        self, batch: MessageBatch, messages: Sequence[LogMessage], now: float, bounds: Bounds
    ) -> None:
        if messages and self._mapping is None:
            values = [message.value() or b"" for message in messages]
            records = self._queries.whole(b"\n".join(values), now, bounds, with_ids=True)
            if records is not None and len(records) == len(messages) and all(map(_says, records)):
                batch.records = records
                return
        for message in messages:
            value = mapped = message.value() or b""
            try:
                if self._mapping is not None:
                    mapped = b""
                    mapped = self._mapping.line(value)
                query_id = _id_of(self._options, message)
                batch.records.append(
                    _checked(self._queries(mapped, now, bounds, query_id=query_id))
                )
            except RecordError as error:
                # An original alone would be taken for a record without fields.
                content = LineContent("queries", mapped)
                if not mapped:
                    content = LineContent("queries", value[:_SHOWN_BYTES], whole=False)
                self._refuse(batch, message, error, content, now)
        for field, count in self._mapping.take_missing().items() if self._mapping else ():
            self._context.counters.unmapped("kafka", field, count)

    def _add_change(
        self, batch: MessageBatch, message: LogMessage, kind: bytes, now: float, bounds: Bounds
    ) -> None:
        value = message.value() or b""
        content: LineContent = LineContent("feedback", value[:_SHOWN_BYTES], whole=False)
        try:
            if kind == b"verdict":
                batch.changes.append(_verdict(value, now, bounds))
                return
            if kind not in self._kinds:
                raise RecordError(
                    "unknown_kind",
                    f"header {KIND_HEADER}",
                    f"{kind[:40].decode(errors='replace')!r} is not known",
                    hint="send query, feedback, label or verdict, or leave the header out",
                )
            name, decode = self._kinds[kind]
            content = LineContent(name, value)
            batch.changes.append(decode(value, now, bounds))
        except RecordError as error:
            self._refuse(batch, message, error, content, now)

    def _add_spans(
        self, batch: MessageBatch, message: LogMessage, value: bytes, now: float
    ) -> None:
        sink = self._context.spans
        assert sink is not None  # checked when the source was built
        encoding = "json" if self._options.format == "otlp_json" else "protobuf"
        try:
            batch.spans += sink.decode(value, "json" if encoding == "json" else "protobuf")
        except RecordError as error:
            content = LineContent("queries", value[:_SHOWN_BYTES], whole=False)
            self._refuse(batch, message, error, content, now)
        except MemoryLimitError as error:
            if error.retryable:
                raise
            refusal = RecordError("too_large", "", str(error))
            self._refuse(batch, message, refusal, None, now)

    def _refuse(
        self,
        batch: MessageBatch,
        message: LogMessage,
        error: RecordError,
        content: LineContent | None,
        now: float,
    ) -> None:
        partition, offset = message.partition(), message.offset()
        policy = self._context.text
        place = f"kafka topic {self._options.topic}, partition {partition}, offset {offset}"
        text = f"{place}: {explain(error, policy)}"
        batch.refusals.append(MessageRefusal(partition, offset, error, text))
        if error.reason in AGES or len(batch.quarantined) >= _MOST_QUARANTINED:
            return
        if content is None:
            content = LineContent("queries", (message.value() or b"")[:_SHOWN_BYTES], whole=False)
        batch.quarantined.append(line_item(now, place, error, content, policy))


def _kind(headers: Sequence[tuple[str, bytes | None]]) -> bytes | None:
    """The kind that the headers name; None: they name none."""
    return next((value or b"" for name, value in headers if name == KIND_HEADER), None)


def _id_of(options: Options, message: LogMessage) -> str:
    """The id of a query that has none of its own: the same however often it is read."""
    key = (message.key() or b"").decode(errors="replace")
    if key and len(key) <= _MOST_KEY and key.isprintable():
        return key
    return f"{options.topic[:200]}/{message.partition()}/{message.offset()}"


def _says(record: QueryRecord) -> bool:
    """True for a record with anything to count."""
    return not (
        record.query is None
        and record.chunks is None
        and record.answer is None
        and record.latency_ms is None
        and record.error is None
        and record.feedback is None
    )


def _checked(record: QueryRecord) -> QueryRecord:
    """The record, unless it is JSON of something else."""
    if _says(record):
        return record
    raise RecordError(
        "foreign",
        "",
        "has no query, answer, chunks, latency_ms, feedback or error",
        hint="check the topic; mapping reads JSON of another form",
    )


def _tombstone() -> RecordError:
    return RecordError(
        "tombstone",
        "",
        "the message has no content",
        hint="nothing is deleted by it; send DELETE /v1/users/{id} to erase what a user asked",
    )


def _too_large(value: bytes) -> RecordError:
    return RecordError(
        "too_large",
        "",
        f"the message has {len(value):,} bytes",
        hint=f"send at most {MESSAGE_BYTES:,}, such as fewer spans in one batch",
    )


_decode_verdict = msgspec.json.Decoder(Verdict).decode


def _verdict(line: bytes, now: float, bounds: Bounds) -> Verdict:
    """A verdict as a judge sends it, whose numbers can be counted with.

    Raises:
        RecordError: it is none.
    """
    hint = "see deploy/docs/guides/kafka.md"
    try:
        verdict = _decode_verdict(line)
    except msgspec.ValidationError as error:
        raise RecordError("invalid", "verdict", str(error), hint=hint) from None
    except UnicodeDecodeError:
        raise RecordError("encoding", "verdict", "is not UTF-8", hint=hint) from None
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RecordError("malformed", "verdict", str(error), hint=hint) from None
    if not 0.0 < verdict.probability <= 1.0:
        raise RecordError("invalid", "probability", "is not in (0, 1]", hint=hint)
    if verdict.score is None and not verdict.reason:
        raise RecordError("invalid", "score", "is missing, without a reason", hint=hint)
    numbers = (verdict.raw or 0.0, verdict.doubted_below or 0.0, *verdict.scores.values())
    if not all(map(math.isfinite, numbers)):
        raise RecordError("invalid", "scores", "are not numbers", hint=hint)
    at = event_time(verdict.timestamp or UNSTAMPED, now, bounds, may_be_old=True)
    return replace(verdict, timestamp=at)
