"""Content of quarantined items: pure, with the texts as ``privacy.text`` lets them be kept."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from ragmon.errors import RecordError
from ragmon.privacy import Policy, redact_text
from ragmon.records import Amendments, QueryRecord, Verdict
from ragmon.stores.quarantine import QuarantinedItem, Stage

MOST_LINE_BYTES = 1 << 20
"""Longest line that is kept whole, and can be tried again."""
_BEGINNING_BYTES = 4_096  # of a longer one

LineKind = Literal["queries", "feedback", "labels"]

AGES = frozenset({"too_old", "future"})
"""Reasons that are no defects: a limit says so, and a retry would not help."""

REASONS: dict[Stage, tuple[str, ...]] = {
    "decode": ("invalid", "malformed", "damaged", "too_large"),
    "map": ("defect", "timeout", "killed"),
    "judge": ("judge_crashed", "judge_hung", "judge_too_long", "judging_defect", "bad_prompt"),
    "send": ("dead_letter",),
}
"""The usual reasons of each stage, whose counters are there from the start."""


class RetryFailedError(Exception):
    """It failed again; the message says why."""


class AnswerRetry(NamedTuple):
    """A judge that can be asked again about one answer."""

    judge: Callable[[QueryRecord, Amendments], Verdict]  # raises RetryFailedError
    on_verdict: Callable[[QueryRecord, Verdict], None]  # called once it is durable


class LineContent(Struct, frozen=True, tag="line"):
    """A line of a followed file."""

    records: LineKind
    line: bytes
    whole: bool = True  # False: only its beginning was kept
    dropped: bool = False  # nothing was kept, as privacy.text is drop


class TraceContent(Struct, frozen=True, tag="trace"):
    """The spans of one trace, as ``ragmon.sources.otlp.spans`` packs them."""

    bodies: Sequence[bytes]


class DamagedContent(Struct, frozen=True, tag="damaged"):
    """Stored spans that cannot be read."""

    packed: bytes


class AnswerContent(Struct, frozen=True, tag="answer"):
    """An answer that a judge failed on; its texts are those of the stored query."""

    query_id: str
    judge: str


Content = LineContent | TraceContent | DamagedContent | AnswerContent

encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Content).decode


def decode(body: bytes) -> Content | None:
    """The content of an entry; None when it is of no form known here."""
    try:
        content: Content = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return content


def line_item(
    at: float, name: str, error: RecordError, content: LineContent, policy: Policy
) -> QuarantinedItem:
    """A line that was refused, with what may be kept of it.

    Args:
        at: unix seconds.
        name: the file, and the byte at which the line begins.
        error: why it was refused.
        content: the whole line.
        policy: ``privacy.text``.
    """
    line = content.line
    if policy == "drop":
        kept = LineContent(content.records, b"", whole=False, dropped=True)
    elif len(line) > MOST_LINE_BYTES:
        kept = LineContent(content.records, _written(line[:_BEGINNING_BYTES], policy), whole=False)
    else:
        kept = LineContent(content.records, _written(line, policy), whole=content.whole)
    return QuarantinedItem("decode", error.reason, at, name, explain(error, policy), encode(kept))


def trace_item(
    at: float, trace_id: bytes, cause: tuple[Stage, str, str], bodies: Sequence[bytes]
) -> QuarantinedItem:
    """A trace that could not become queries.

    Args:
        at: unix seconds.
        trace_id: of the trace.
        cause: stage, reason and error.
        bodies: its spans, packed; they were redacted when they arrived.
    """
    stage, reason, error = cause
    content = encode(TraceContent(list(bodies)))
    return QuarantinedItem(stage, reason, at, trace_id.hex(), error, content)


def answer_item(at: float, query_id: str, judge: str, cause: tuple[str, str]) -> QuarantinedItem:
    """An answer that a judge failed on.

    Args:
        at: unix seconds.
        query_id: of the answer.
        judge: the one that failed.
        cause: reason and error.
    """
    reason, error = cause
    content = encode(AnswerContent(query_id, judge))
    return QuarantinedItem("judge", reason, at, query_id, error, content)


def explain(error: BaseException, policy: Policy) -> str:
    """An error as it may be written: its message can quote what somebody asked."""
    name, message = type(error).__name__, str(error)
    if isinstance(error, RecordError):
        name = error.field or "not a record"
    if policy == "drop":
        return f"{name} (its message is not kept: privacy.text is drop)"
    text = f"{name}: {message}" if message else name
    return redact_text(text) if policy == "redact" else text


def plain(value: Any, policy: Policy) -> Any:
    """A value as JSON can hold it, for people: bytes as text."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        return redact_text(text) if policy == "redact" else text
    return value


def _written(line: bytes, policy: Policy) -> bytes:
    if policy == "keep":
        return line
    return redact_text(line.decode(errors="replace")).encode()
