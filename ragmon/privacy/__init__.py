"""Privacy of texts: written whole, without personal data and secrets, or not at all.

``redact_text`` looks for shapes, not for meaning. It replaces e-mail addresses, phone numbers,
payment cards (Luhn), IBANs (mod 97), account and US social security numbers, passwords, API
keys, tokens and private keys. Where a shape is ambiguous the words before it decide: ten bare
digits are a phone number after "call me at" and stay after "order". It leaves IP addresses,
UUIDs, hashes, dates, order numbers and ISBNs, which operators need and which name no one by
themselves. It does not know names, postal addresses, passports, tax numbers, addresses spelled
"jane at corp", or a secret without a known shape or a name beside it.

Every pattern runs in linear time on any text: repeats are bounded or possessive, and a pattern
with an unbounded one can only start where the characters it repeats begin.
"""

import hashlib
from bisect import bisect_right
from typing import Literal, TypeVar

from msgspec.structs import replace

from ragmon.privacy import credentials, personal
from ragmon.privacy.search import find, rewrite
from ragmon.records import MAX_FEEDBACK_TEXT, MAX_ID, MAX_TEXT, Chunk, Feedback, Label, QueryRecord

Policy = Literal["keep", "redact", "drop"]
Record = TypeVar("Record", QueryRecord, Feedback | Label)

DROPPED = "[dropped]"
"""Stands for an error text, because a query without one would count as answered."""

REDACTED = "[redacted]"
"""Stands for a text that would have to be redacted without end."""

_MAX_SOURCE = 4096
_MOST_PASSES = 8  # a short placeholder may bring a name and what follows within reach
_RULES = (*credentials.RULES, *personal.RULES)


def apply(record: Record, policy: Policy) -> Record:
    """The record as it may be written.

    ``redact`` rewrites query, answer, error, comment, chunk texts and sources, tag values, user
    and session ids, and labellers, who stay apart by a hash. ``drop`` removes query, answer,
    comment and chunk texts, replaces the error and redacts the rest; what counts are made of
    (ids, scores, latencies) stays. Citations must therefore be parsed from the answer before.
    Ids, versions and models are keys that other records refer to: they are never rewritten.

    Returns:
        The same object when nothing was to be changed.
    """
    if policy == "keep":
        return record
    if isinstance(record, Feedback):
        comment = None if policy == "drop" else _redact(record.comment, MAX_FEEDBACK_TEXT)
        return record if comment == record.comment else replace(record, comment=comment)
    if isinstance(record, Label):
        return (
            record if (name := _alias(record.labeller)) is None else replace(record, labeller=name)
        )
    return _redact_query(record if policy == "redact" else _drop_texts(record))


def redact_text(text: str) -> str:
    """The text with placeholders such as ``[email]`` or ``[key]`` for what must not be written.

    Redacting twice changes nothing more. Full-width characters, digits of any script and
    invisible characters within a secret do not hide it. A text in which more is found again and
    again, as only one that was made for it has, becomes ``[redacted]`` as a whole.
    """
    for _ in range(_MOST_PASSES):
        spans = find(text, _RULES)
        if not spans:
            return text
        text = rewrite(text, spans, lambda span: span[2])
    return REDACTED if find(text, _RULES) else text


def _drop_texts(record: QueryRecord) -> QueryRecord:
    chunks = record.chunks and [Chunk(c.id, c.score, None, c.source) for c in record.chunks]
    error = None if record.error is None else DROPPED
    return replace(
        record,
        query=None,
        retrieval_query=None,
        answer=None,
        chunks=chunks,
        error=error,
        embedding_sketch=None,
    )


def _redact_query(record: QueryRecord) -> QueryRecord:
    tags, chunks = record.tags or {}, record.chunks or []
    texts = [record.query, record.retrieval_query, record.answer, record.error]
    texts += [record.user_id, record.session_id]
    texts += [*tags.values(), *(c.text for c in chunks), *(c.source for c in chunks)]
    suspect = _suspects([text for text in texts if text])
    if not suspect:
        return record

    def redact(text: str | None, limit: int = MAX_TEXT) -> str | None:
        return _redact(text, limit) if text in suspect else text

    return replace(
        record,
        query=redact(record.query),
        embedding_sketch=None if record.query in suspect else record.embedding_sketch,
        retrieval_query=redact(record.retrieval_query),
        answer=redact(record.answer),
        error=redact(record.error),
        user_id=redact(record.user_id, MAX_ID),
        session_id=redact(record.session_id, MAX_ID),
        tags=record.tags and {key: redact(tag, MAX_ID) for key, tag in tags.items()},
        chunks=record.chunks
        and [Chunk(c.id, c.score, redact(c.text), redact(c.source, _MAX_SOURCE)) for c in chunks],
    )


def _alias(name: str) -> str | None:
    """A redacted name that stays unique; None if there is nothing to redact."""
    redacted = redact_text(name)
    if redacted == name:
        return None
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]  # or one label would replace another
    return f"{redacted[: MAX_ID - len(mark) - 1]}-{mark}"


def _suspects(texts: list[str]) -> set[str]:
    """The texts that hold something: one search through all, as most records hold nothing."""
    spans = find("\n".join(texts), _RULES)
    suspects, start = set(), 0
    for text in texts if spans else ():
        end = start + len(text)
        nearest = bisect_right(spans, start, key=lambda span: span[1])
        if nearest < len(spans) and spans[nearest][0] < end:
            suspects.add(text)
        start = end + 1
    return suspects


def _redact(text: str | None, limit: int) -> str | None:
    """Cut to the limit of its field, which a long placeholder for a short secret may exceed."""
    return text and redact_text(text)[:limit]
