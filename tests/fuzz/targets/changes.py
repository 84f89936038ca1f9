"""Bodies of ``POST /v1/feedback`` and ``/v1/labels``: decoded, folded into a query, stored."""

from typing import Any

import msgspec
import numpy as np

from ragmon import queries
from ragmon.decode import Decoder
from ragmon.pipeline import amend
from ragmon.records import Amendments, Chunk, Feedback, Label, QueryRecord
from ragmon.stores import amendments
from tests.fuzz import json_text as json
from tests.fuzz.source import Source
from tests.fuzz.targets.queries import CONTENT_TYPES, check_refused, decoded, generated
from tests.fuzz.worlds import NOW, PRIVACIES, pipeline

_DECODERS: dict[type, Decoder[Any]] = {Feedback: Decoder(Feedback), Label: Decoder(Label)}
_TIME: json.Value = lambda source: source.choose((json.number, json.text))(source)  # noqa: E731
_ID = json.literal('"q-1"', '"q-2"', '""')
_RECORDS = {
    Feedback: json.fields(
        {
            "query_id": _ID,
            "rating": lambda source: source.choose(
                (json.literal('"positive"', '"negative"', "1", "-1"), json.number)
            )(source),
            "comment": json.text,
            "timestamp": _TIME,
            "unknown": json.value,
        }
    ),
    Label: json.fields(
        {
            "query_id": _ID,
            "labeller": json.text,
            "relevant_ids": json.listing(json.literal('"c-1"', '"c-2"', '"x"')),
            "grades": json.mapping(json.literal('"c-1"', '"c-2"', '"x"'), json.number),
            "faithful": json.number,
            "timestamp": _TIME,
        }
    ),
}
_QUERY = QueryRecord(
    query_id="q-1",
    timestamp=NOW,
    answer="Paris [1]",
    chunks=[Chunk("c-1", 0.5, "Paris"), Chunk("c-2")],
)
WORDS = [b'"query_id":', b'"rating":', b'"labeller":', b'"grades":', b'"faithful":', b'"q-1"']


def seeds() -> list[bytes]:
    """Each kind in each form, and choices with many fields."""
    feedback = b'{"query_id":"q-1","rating":"positive","comment":"jane@example.com"}'
    label = b'{"query_id":"q-1","labeller":"a","grades":{"c-1":2},"faithful":0.5}'
    raw = [bytes([1, kind, 0, form]) + body
           for kind, body in ((0, feedback), (1, label)) for form in range(3)]  # fmt: skip
    return raw + [bytes([0, kind, 0, 1]) + bytes((step * at) % 256 for at in range(90))
                  for step in (3, 7, 29, 53) for kind in range(2)]  # fmt: skip


def run(data: bytes) -> None:
    """Every line is accepted or refused, and what is accepted moves the query and comes back."""
    source = Source(data)
    is_raw, kind = source.byte() & 1, source.choose((Feedback, Label))
    content_type, privacy = source.choose(CONTENT_TYPES), source.choose(PRIVACIES)
    body = source.rest() if is_raw else generated(source, _RECORDS[kind])
    changes, refused = decoded(_DECODERS[kind], kind, body, content_type)
    check_refused(refused)
    if changes:
        _check(changes[:100], privacy)


def _check(changes: list[Feedback | Label], privacy: str) -> None:
    of = pipeline(privacy)
    known = Amendments()
    for change in changes:
        admitted = of.admit_change(change)
        known, _ = amend(known, admitted)
        again, is_new = amend(known, admitted)
        assert not is_new, "the same change counts twice"
        assert again == known
    before = of.observe([_QUERY], [Amendments()])
    after = of.observe([_QUERY], [known])
    layout = amendments.layout_of(of.columns)
    body = amendments.encode(known, layout, before.values[0], after.values[0])
    stored = amendments.decode(body)
    assert stored.known == known
    row = before.values[0].copy()
    amendments.apply(amendments.decode_moved(body), row, np.arange(len(row)))
    assert np.array_equal(row, after.values[0], equal_nan=True)
    described = queries.describe([(msgspec.msgpack.encode(_QUERY), body)], of)[0]
    assert described.feedback in (known.feedback, None)
    msgspec.json.decode(msgspec.json.encode(described))
