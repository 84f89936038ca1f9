"""Erasure from the quarantine: entries that mention somebody, or are about their queries."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeVar

import msgspec

from ragmon import quarantine
from ragmon.errors import StoreCorruptError
from ragmon.loops import beat
from ragmon.privacy.erasure import Subject, is_erased
from ragmon.privacy.mentions import Mention
from ragmon.quarantine import AnswerContent, Content, DamagedContent, LineContent, TraceContent
from ragmon.records import QueryRecord
from ragmon.sources.otlp.receiver.erasure import is_of_pipeline
from ragmon.sources.otlp.spans import Span, unpack
from ragmon.stores import Reader
from ragmon.stores.quarantine import Quarantine, QuarantineRow

_Answer = TypeVar("_Answer")
_MOST = 1_000_000  # entries; there are never as many

_record = msgspec.msgpack.Decoder(QueryRecord)


StoredById = Callable[[Reader, str], tuple[bytes, bytes | None] | None]
"""A stored record with its amendments, by the id of its query."""


class QuarantineAccess(Protocol):
    """The entries of a shard, on the thread that owns it."""

    def ask(self, function: Callable[[Quarantine], _Answer]) -> _Answer:
        """The answer of a function that looks at them."""
        ...


class QuarantineEraser:
    """Deletes entries whole: nobody has understood them, so no part is known to be harmless.

    An entry is the subject's if a text, key or value of it, or its error, mentions their id, or
    if it is about a query of theirs. One that cannot be read any more goes as well.
    """

    def __init__(
        self, entries: QuarantineAccess, reader: Callable[[], Reader], stored: StoredById
    ) -> None:
        """Make it.

        Args:
            entries: of one shard.
            reader: opens a view of the store.
            stored: finds a query by its id.
        """
        self._entries = entries
        self._open = reader
        self._stored = stored

    def erase(self, subject: Subject, *, dry_run: bool) -> int:
        """Delete the subject's entries, or only count them; returns how many."""
        with self._open() as reader:
            numbers = list(self._owned(reader, subject))
        if not dry_run:
            self._entries.ask(lambda entries: entries.delete(numbers))
        return len(numbers)

    def _owned(self, reader: Reader, subject: Subject) -> Iterator[int]:
        mention = Mention(subject.id)
        for row in self._entries.ask(lambda entries: entries.rows(_MOST)):
            beat()
            if self._is_owned(reader, row, subject, mention):
                yield row.number

    def _is_owned(
        self, reader: Reader, row: QuarantineRow, subject: Subject, mention: Mention
    ) -> bool:
        try:
            entry = self._entries.ask(partial(_find, row.number))
        except StoreCorruptError:
            return True  # nobody can tell whose it is, and nobody can use it
        if entry is None:
            return False
        content = quarantine.decode(entry[1])
        mentions = mention.is_in_text(row.error) or _mentions(content, entry[1], subject, mention)
        return mentions or self._is_theirs(reader, _query_id(row, content), subject)

    def _is_theirs(self, reader: Reader, query_id: str, subject: Subject) -> bool:
        """True for a query of the subject, or one that was erased."""
        row = self._stored(reader, query_id) if query_id else None
        if row is None:
            return False
        record = _record.decode(row[0])
        owner = subject.owns(record.user_id, record.session_id, record.pipeline)
        return owner or is_erased(record.query_id)


def _find(number: int, entries: Quarantine) -> tuple[QuarantineRow, bytes] | None:
    return entries.find(number)


def _mentions(content: Content | None, body: bytes, subject: Subject, mention: Mention) -> bool:
    match content:
        case LineContent():
            return _line_mentions(content.line, subject, mention)
        case TraceContent():
            return _trace_mentions(content, subject, mention)
        case AnswerContent():
            return False  # it only names a query
        case DamagedContent():
            return True  # as above
    return mention.is_within(body)


def _line_mentions(line: bytes, subject: Subject, mention: Mention) -> bool:
    if not mention.is_within(line):
        return False
    fields = _fields(line)
    if fields is None:
        return True
    pipeline = fields.get("pipeline", subject.pipeline)
    is_elsewhere = subject.pipeline and isinstance(pipeline, str) and pipeline != subject.pipeline
    return not is_elsewhere and mention.is_in(fields)


def _trace_mentions(content: TraceContent, subject: Subject, mention: Mention) -> bool:
    if not any(map(mention.is_within, content.bodies)):
        return False
    try:
        spans = unpack(content.bodies)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return True
    if not is_of_pipeline(spans, subject.pipeline):
        return False
    return any(mention.is_in(_texts(span)) for span in spans)


def _texts(span: Span) -> list[Any]:
    events = [[event.name, event.attributes] for event in span.events]
    return [span.name, span.message, span.attributes, events]


def _query_id(row: QuarantineRow, content: Content | None) -> str:
    """Id of the query that an entry is about; empty when it is about none."""
    match content:
        case AnswerContent():
            return content.query_id
        case TraceContent():
            return row.name  # queries are named after their trace
        case LineContent():
            query_id = (_fields(content.line) or {}).get("query_id")
            return query_id if isinstance(query_id, str) else ""
    return ""


def _fields(line: bytes) -> dict[str, Any] | None:
    """The fields of a line; None when it is no JSON object."""
    try:
        fields = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None
