"""Bytes to records, one line at a time: good lines are kept, bad ones are explained."""

import difflib
import functools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from ragmon.errors import RecordError
from ragmon.event_time import Bounds, event_time
from ragmon.records import AnswerStep, Chunk, Feedback, Label, Latency, QueryRecord, Tokens

Record = TypeVar("Record", QueryRecord, Feedback, Label)

_PATH = re.compile(r" - at `\$\.?([^`]*)`\Z")
_REMEDIES = (
    ("timestamp", "send RFC 3339 with a time zone, or unix seconds"),
    ("feedback", 'send "positive", "negative", a number from -1 to 1, or null'),
    ("rating", 'send "positive", "negative" or a number from -1 to 1'),
    ("latency_ms", "send milliseconds, or an object with total, retrieval and generation"),
    ("chunks", 'send a list of objects like {"id": "doc-1", "score": 0.8}, or null if unknown'),
    ("citations", "send a list of chunk ids, or null if unknown"),
    ("faithful", "send a number from 0 to 1"),
    ("scores", "send numbers from 0 to 1 by the name of a judge of judge.custom"),
)
_BY_REASON = {
    "malformed": "send one complete JSON object a line",
    "encoding": "send UTF-8",
    "too_deep": "flatten the nested value",
}


class Rejection(Struct, frozen=True):
    """One refused line, with the reason and the remedy."""

    line: int  # from 1: of NDJSON, or the position in an array
    field: str
    error: str
    remedy: str
    reason: str


def elements(
    body: bytes, content_type: str = "", check: Callable[[bytes], None] = lambda _body: None
) -> Sequence[Any] | None:
    """The JSON of each record of an array, or of a single object; None: the body is NDJSON.

    Args:
        body: of a request.
        content_type: of the body; may be empty.
        check: called with an array before it is taken apart; may raise RecordError.

    Raises:
        RecordError: the body is no JSON at all, or did not pass the check.
    """
    ndjson = "ndjson" in content_type or "jsonl" in content_type or "json-seq" in content_type
    if _first_byte(body) == _BRACKET:
        check(body)
        try:
            return _decode_array(body)
        except RecordError:
            if not ndjson:
                raise  # as NDJSON only its first line is bad
    elif not ndjson and _is_one_object(body):
        return [body]
    return None


class Decoder(Generic[Record]):
    """Decodes lines into records of one type."""

    def __init__(self, kind: type[Record]) -> None:
        decoder = msgspec.json.Decoder(kind)
        self._decode: Callable[[Any], Record] = decoder.decode
        self._decode_lines: Callable[[bytes], list[Record]] = decoder.decode_lines

    def __call__(self, line: Any, now: float, bounds: Bounds, *, query_id: str = "") -> Record:
        """One record, stamped.

        Args:
            line: JSON bytes (or msgspec.Raw) of one object.
            now: unix seconds, for records without a timestamp.
            bounds: timestamps outside are refused.
            query_id: of a record without one; empty: one is made up.

        Raises:
            RecordError: with field, reason and remedy.
        """
        try:
            record = self._decode(line)
            text = bytes(line)
            if not text.isascii():
                text.decode()  # fields that are not decoded are not checked otherwise
        except msgspec.ValidationError as error:
            raise _invalid(str(error)) from None
        except msgspec.DecodeError as error:
            raise _refusal("malformed", "", _plain(str(error))) from None
        except UnicodeDecodeError:
            at = _first_bad_byte(bytes(line))
            raise _refusal("encoding", "", f"invalid UTF-8 at byte {at}") from None
        except RecursionError:
            raise _refusal("too_deep", "", "nested too deeply") from None
        if b"\\" in text and b"\\u0000" in text:
            _refuse_nul(record)
        if query_id and not record.query_id:
            force_setattr(record, "query_id", query_id)
        return _stamp(record, now, bounds)

    def whole(
        self, text: bytes, now: float, bounds: Bounds, *, with_ids: bool = False
    ) -> list[Record] | None:
        """The records of lines that are all good, stamped, at two thirds of the cost.

        Args:
            text: the lines.
            now: unix seconds, for records without a timestamp.
            bounds: timestamps outside are refused.
            with_ids: a line without an id is not good.

        Returns:
            None when the lines have to be looked at one by one: one of them may be bad or blank.
        """
        lines = _count_objects(text)
        if not lines or _holds_nul(text):
            return None
        earliest, newest = max(0.0, bounds.oldest), bounds.newest
        try:
            if not text.isascii():
                text.decode()
            records = self._decode_lines(text)
            for record in records:
                if not (earliest <= record.timestamp <= newest and record.query_id):
                    if with_ids and not record.query_id:
                        return None
                    _stamp(record, now, bounds)
        except (RecordError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return records if len(records) == lines else None


def _count_objects(text: bytes) -> int:
    """The number of lines; 0 unless each begins and ends like an object.

    Between ``}`` and ``{`` a line break can only stand outside of every object, so then as many
    objects as lines are one on each line.
    """
    lines, at, end = 1, text.find(b"\n"), len(text) - 1
    while 0 <= at < end:
        if text[at - 1] != _CLOSING or text[at + 1] != _OPENING:
            return 0
        lines += 1
        at = text.find(b"\n", at + 1)
    return lines


def _holds_nul(text: bytes) -> bool:
    r"""True if an escaped NUL is in it; to search the six bytes would cost four times as much.

    Pairs of bytes are compared, all at once: ``\u0000`` falls into ``\u``, ``00`` and ``00``, or
    ``u0``, ``00`` and a zero after a backslash.
    """
    pairs = np.frombuffer(text, dtype="<u2", count=len(text) // 2)
    (at,) = (pairs[:-1] == _ZEROS).nonzero()
    before, after = pairs[at - 1], pairs[at + 1]
    even = (before == _ESCAPE) & (after == _ZEROS)
    odd = (before == _ESCAPE_AND_ZERO) & (after & 0xFF == _ZERO)
    return bool((even | odd).any())


_OPENING, _CLOSING, _ZERO = b"{}0"
_ZEROS, _ESCAPE, _ESCAPE_AND_ZERO = (
    int.from_bytes(pair, "little") for pair in (b"00", b"\\u", b"u0")
)


def rejection(line: int, error: RecordError) -> Rejection:
    """A refusal of one line, for the answer."""
    message = error.args[0]
    return Rejection(line, error.field, message, error.hint, error.reason)


def ignored_fields(line: Any, kind: type[Struct]) -> dict[str, str | None]:
    """Fields of one record that its schema does not know, each with the nearest known name.

    A record beyond a megabyte has none: all of its fields would have to be decoded.
    """
    if len(memoryview(line)) > _MOST_COMPARED:
        return {}
    try:
        with suppress(msgspec.ValidationError):
            _only_fields(kind).decode(line)
            return {}
        decoded = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    ignored: dict[str, str | None] = {}
    if isinstance(decoded, dict):
        _compare(decoded, kind, "", ignored)
        if kind is QueryRecord:
            chunks = decoded.get("chunks")
            if isinstance(chunks, list) and chunks:
                _compare(chunks[0], Chunk, "chunks[0].", ignored)
            steps = decoded.get("steps")
            for step in steps if isinstance(steps, list) else ():
                _compare(step, AnswerStep, "steps[].", ignored)
            _compare(decoded.get("latency_ms"), Latency, "latency_ms.", ignored)
            _compare(decoded.get("tokens"), Tokens, "tokens.", ignored)
    return ignored


@functools.cache
def _only_fields(kind: type[Struct]) -> msgspec.json.Decoder[Any]:
    """Reads no value, and refuses names that a schema does not have; at half of the time."""
    nested: dict[str, Any] = {}
    if kind is QueryRecord:
        nested["chunks"] = list[_names_of(Chunk)] | None  # type: ignore[misc]
        nested["steps"] = list[_names_of(AnswerStep)] | None  # type: ignore[misc]
        nested["latency_ms"] = _names_of(Latency) | float | None
        nested["tokens"] = _names_of(Tokens) | None
    return msgspec.json.Decoder(_names_of(kind, nested))


def _names_of(kind: type[Struct], nested: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """A struct with the fields of another, of which only those that are nested are looked into."""
    fields = [
        (name, nested.get(name, msgspec.Raw), msgspec.Raw()) for name in kind.__struct_fields__
    ]
    return msgspec.defstruct(kind.__name__, fields, forbid_unknown_fields=True, gc=False)


def _compare(value: Any, kind: type[Struct], prefix: str, ignored: dict[str, str | None]) -> None:
    if not isinstance(value, dict):
        return
    known = kind.__struct_fields__
    for name in value:
        if name not in known and len(ignored) < 20:
            cut = name[:_MOST_NAME]  # difflib takes time and memory by the length of a name
            near = difflib.get_close_matches(cut, known, n=1, cutoff=0.6)
            ignored[prefix + cut] = prefix + near[0] if near else None


_MOST_COMPARED = 1 << 20
_MOST_NAME = 100


def _decode_array(body: bytes) -> list[msgspec.Raw]:
    try:
        return msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _refusal("malformed", "", _plain(str(error))) from None


def _is_one_object(body: bytes) -> bool:
    """True if the whole body is one JSON value (possibly pretty-printed over many lines)."""
    end = body.find(b"\n", _begin(body))
    if end < 0 or _begin(body, end) == len(body):
        return True
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return True


def _begin(body: bytes, start: int = 0) -> int:
    """Index of the first byte from there on that is not white space, without a copy of all."""
    for at in range(start, len(body), _LOOK):
        stretch = body[at : at + _LOOK]
        if not stretch.isspace():
            return at + len(stretch) - len(stretch.lstrip())
    return len(body)


def _first_byte(body: bytes) -> int:
    begin = _begin(body)
    return body[begin] if begin < len(body) else 0


_LOOK = 4_096
(_BRACKET,) = b"["


def _first_bad_byte(line: bytes) -> int:
    """Index of the first byte that is not UTF-8; the decoder counts within the string."""
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return error.start
    raise AssertionError("the line is UTF-8")  # pragma: no cover


def _stamp(record: Record, now: float, bounds: Bounds) -> Record:
    """Fill in what the client may leave out; the record is not yet shared with anyone."""
    timestamp = record.timestamp
    if not max(0.0, bounds.oldest) <= timestamp <= bounds.newest:
        may_be_old = not isinstance(record, QueryRecord)
        stamped = event_time(timestamp, now, bounds, may_be_old=may_be_old)
        force_setattr(record, "timestamp", stamped)
    if not record.query_id:
        force_setattr(record, "query_id", uuid.uuid4().hex)
    return record


_TEXTS = {"query", "retrieval_query", "answer", "error", "comment"}
"""NUL does no harm where nothing is named."""


def _refuse_nul(record: QueryRecord | Feedback | Label) -> None:
    for name in record.__struct_fields__:
        if name not in _TEXTS:
            for field, value in _names(name, getattr(record, name)):
                if "\0" in value:
                    message = "contains a NUL character"
                    raise RecordError("invalid", field, message, hint="remove it")


def _names(field: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every string of a field that names something, with its place."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, Chunk):
        yield from ((f"{field}.id", value.id), (f"{field}.source", value.source or ""))
    elif isinstance(value, list):
        for at, element in enumerate(value):
            yield from _names(f"{field}[{at}]", element)
    elif isinstance(value, dict):
        for key, element in value.items():
            yield field, key
            yield from _names(field, element)


def _invalid(message: str) -> RecordError:
    match = _PATH.search(message)
    field = match[1] if match else ""
    text = message[: match.start()] if match else message
    if field.endswith("query_id") and "length" in text:
        return RecordError("invalid", field, _plain(text), hint="shorten the id, or hash it")
    missing = re.search(r"missing required field `(\w+)`", text)
    if missing:
        field = f"{field}.{missing[1]}".lstrip(".")
    return _refusal("invalid", field, _plain(text))


def _refusal(reason: str, field: str, message: str) -> RecordError:
    hint = _BY_REASON.get(reason) or next(
        (text for name, text in _REMEDIES if field.startswith(name)), ""
    )
    if "length" in message:
        hint = "shorten it" if "<=" in message else "leave it out rather than empty"
    return RecordError(reason, field, message, hint=hint or "see deploy/docs/guides/send.md")


def _plain(message: str) -> str:
    """Msgspec's message in the words of JSON, and of what to send rather than null."""
    if message == "Input data was truncated":
        return "JSON is empty or truncated, or holds half of a surrogate pair"
    text = message.replace("`", "").replace("float", "number").replace(" | null", "")
    return text if text.startswith("JSON") else text[:1].lower() + text[1:]
