"""Search of what records hold: ids, names, tags and words, in the decompressed block."""

from collections.abc import Sequence

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


decode_contents = msgspec.msgpack.Decoder(list[Contents]).decode
_decode_identities = msgspec.msgpack.Decoder(list[Identity]).decode
_decode_identity = msgspec.msgpack.Decoder(Identity).decode
_decode_one = msgspec.msgpack.Decoder(Contents).decode


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
        # An exact value stands in the block as it is; words do not, in upper case or composed.
        self._needles = [value.encode() for _, value in (*self._same, *tags) if value]

    @staticmethod
    def is_needed(query_filter: QueryFilter) -> bool:
        """True where observations alone do not tell."""
        return bool(query_filter.same or query_filter.words)

    def places(self, reader: Reader, first_sequence: int) -> list[int]:
        """Positions of the records that fit, in order."""
        read = reader.contents(first_sequence)
        if read is None:
            return []
        body, revised = read
        places = set()
        if all(needle in body for needle in self._needles):
            every = (_decode_identities if self._words is None else decode_contents)(body)
            places = {at for at, contents in enumerate(every) if self._fits(contents)}
        decode = _decode_identity if self._words is None else _decode_one
        for at, record in revised.items():
            places.discard(at)
            if self._fits(decode(record)):
                places.add(at)
        return sorted(places)

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
