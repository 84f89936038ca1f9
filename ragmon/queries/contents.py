"""Search of what records hold: ids, names, tags and words, in the decompressed block."""

import bisect
import itertools
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from ragmon.queries.blocks import QueryFilter
from ragmon.stores import Reader

FIELDS = ("environment", "model", "session_id", "user_id", "trace_id")
"""Fields of a record that a filter may ask for by their whole value."""


class Identity(Struct, frozen=True, gc=False):
    """Names that a record gives itself, without its texts."""

    environment: str | None = None
    model: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    trace_id: str | None = None
    tags: dict[str, str] | None = None


class Contents(Identity, frozen=True, gc=False):
    """The same with the texts in which words are looked for."""

    query: str | None = None
    answer: str | None = None


class _Texts(Struct, frozen=True, gc=False):
    """The texts alone."""

    query: str | None = None
    answer: str | None = None


decode_contents = msgspec.msgpack.Decoder(list[Contents]).decode
_decode_texts = msgspec.msgpack.Decoder(list[_Texts]).decode
_decode_identities = msgspec.msgpack.Decoder(list[Identity]).decode
_decode_one = msgspec.msgpack.Decoder(Contents).decode
_decode_records = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.msgpack.Encoder().encode


class ContentSearch:
    """Search for the records of a block that hold what a filter names."""

    def __init__(self, query_filter: QueryFilter, tags: Sequence[tuple[str, str]] = ()) -> None:
        """Make it.

        Args:
            query_filter: the queries asked for.
            tags: those of its tags that are not slices.
        """
        self._same = query_filter.same
        self._words = query_filter.words
        self._tags = tags
        # As a record is stored, a field and its value stand one behind the other.
        self._needles = [
            _encode(field) + _encode(value) for field, value in (*self._same, *tags) if value
        ]

    @staticmethod
    def is_needed(query_filter: QueryFilter) -> bool:
        """True where observations alone do not tell."""
        return bool(query_filter.same or query_filter.words)

    def places(self, reader: Reader, first_sequence: int) -> dict[int, bytes]:
        """The records that fit, as they are stored, by their places in the block, in order."""
        read = reader.contents(first_sequence)
        if read is None:
            return {}
        body, revised = read
        places = self._stored_places(body)
        records = _decode_records(body) if places else []
        fitting = {at: bytes(records[at]) for at in places if at not in revised}
        fitting |= {at: record for at, record in revised.items() if self._fits(_decode_one(record))}
        return dict(sorted(fitting.items()))

    def _stored_places(self, body: bytes) -> list[int]:
        """Places of the records that fit as they were stored at first."""
        if not all(needle in body for needle in self._needles):
            return []
        if self._needles:
            return [
                at
                for at, record in _holding(body, self._needles[0])
                if self._fits(_decode_one(record))
            ]
        if self._words is not None and not self._same and not self._tags:
            fits = self._words.fits
            texts = _decode_texts(body)
            return [at for at, each in enumerate(texts) if fits(each.query, each.answer)]
        every = (_decode_identities if self._words is None else decode_contents)(body)
        return [at for at, contents in enumerate(every) if self._fits(contents)]

    def _fits(self, contents: Identity) -> bool:
        if any((getattr(contents, field) or "") != value for field, value in self._same):
            return False
        tags = contents.tags or {}
        if any(tags.get(name, "") != value for name, value in self._tags):
            return False
        if self._words is None:
            return True
        assert isinstance(contents, Contents)
        return self._words.fits(contents.query, contents.answer)


def filter_keys(query_filter: QueryFilter, slices: Sequence[str]) -> list[str]:
    """Keys all of which the filter of a block holds, if one of its records fits.

    Args:
        query_filter: the queries asked for.
        slices: tags that the observations of the block tell.
    """
    keys = [_key(field, value) for field, value in query_filter.same if value]
    tags = [tag for tag in query_filter.tags if tag[0] not in slices]
    keys += [_key(f"tag.{name}", value) for name, value in tags if value]
    return [*keys, *(() if query_filter.words is None else query_filter.words.keys)]


def identity_keys(contents: Identity) -> list[str]:
    """Keys of a record, without those of its words."""
    keys = [
        _key(field, value) for field in FIELDS if (value := getattr(contents, field)) is not None
    ]
    return keys + [_key(f"tag.{name}", value) for name, value in (contents.tags or {}).items()]


def _key(field: str, value: str) -> str:
    return f"{field}={value}"  # no word holds the sign


def _holding(body: bytes, needle: bytes) -> Iterator[tuple[int, msgspec.Raw]]:
    """Records of a block that hold some bytes, with their places, in order."""
    records = _decode_records(body)
    ends = [*itertools.accumulate(len(memoryview(record)) for record in records)]
    head = len(body) - ends[-1]
    begin = body.find(needle)
    while begin >= 0:
        at = bisect.bisect_right(ends, begin - head)
        yield at, records[at]
        begin = body.find(needle, head + ends[at])
