"""Erasure of one user's or session's traces that are not complete, on disk and in memory.

Nothing is mapped here: a trace that ends or stops its mapping must not do so in the daemon. Its
spans are searched for attributes whose key names a user or a session.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ragmon.privacy.erasure import Kind, Subject
from ragmon.privacy.mentions import Mention
from ragmon.sources.otlp.spans import Span, unpack
from ragmon.sources.otlp.traces.mapping import DEFAULT_PIPELINE

_WORDS: dict[Kind, tuple[str, ...]] = {
    "user": ("user",),
    "session": ("session", "thread", "conversation", "chat"),
}
_MOST_DEPTH = 32


def is_owned(bodies: Sequence[bytes], subject: Subject) -> bool:
    """True for a trace of the subject, as far as its spans have come.

    Args:
        bodies: of its spans, as stored.
        subject: user or session.
    """
    mention = Mention(subject.id)
    if not any(map(mention.is_within, bodies)):
        return False
    try:
        spans = unpack(bodies)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return True  # it holds the id, and nobody can tell as what
    if not is_of_pipeline(spans, subject.pipeline):
        return False
    search = _OwnerSearch(subject, mention)
    return any(search.is_in(span.attributes, is_named=False) for span in spans)


def is_of_pipeline(spans: Iterable[Span], pipeline: str) -> bool:
    """True for spans whose queries may be of a pipeline; an empty one stands for all."""
    names = {span.resource.service or span.resource.project or DEFAULT_PIPELINE for span in spans}
    return pipeline in ("", *names)


class _OwnerSearch:
    """Search for an id as the value of a key that names its kind."""

    def __init__(self, subject: Subject, mention: Mention) -> None:
        self._id = subject.id
        self._words = _WORDS[subject.kind]
        self._mention = mention

    def is_in(self, value: Any, *, is_named: bool, depth: int = 0) -> bool:
        """True when it is found.

        Args:
            value: of an attribute, or within one.
            is_named: a key around it names the kind.
            depth: of the value.
        """
        if depth > _MOST_DEPTH:
            return True  # the trace holds the id, and nobody looks so deep
        if isinstance(value, dict):
            return any(
                self.is_in(item, is_named=is_named or self._names(key), depth=depth + 1)
                for key, item in value.items()
            )
        if isinstance(value, list):
            return any(self.is_in(item, is_named=is_named, depth=depth + 1) for item in value)
        if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
            return self._is_in_structure(value, is_named, depth)
        return is_named and str(value).strip() == self._id

    def _is_in_structure(self, text: str, is_named: bool, depth: int) -> bool:
        """True when it is in JSON, or in something like it that cannot be decoded."""
        if not self._mention.is_in_text(text):
            return False
        try:
            structure = msgspec.json.decode(text)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return True
        return self.is_in(structure, is_named=is_named, depth=depth + 1)

    def _names(self, key: object) -> bool:
        name = str(key).lower()
        return any(word in name for word in self._words)
