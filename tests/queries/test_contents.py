"""Search in the content of a block: the records that fit, as they are stored."""

import msgspec
import pytest

from ragmon.queries.blocks import QueryFilter
from ragmon.queries.contents import ContentSearch
from ragmon.queries.words import WordSearch
from ragmon.records import QueryRecord
from tests.support.examples import NOON, pipeline, record
from tests.support.rig import Rig, sent


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, pipeline())
    rig.commit(
        sent(
            record("q0", user_id="ann", session_id="bob", query="who is carl", answer="ann"),
            record("q1", user_id="bob", session_id="ann", tags={"team": "ann"}, answer=None),
            record("q2", user_id="ann", session_id="s", query="x" * 40_000, answer="Ann, bob"),
            record("q3", user_id="anna", tags={"user_id": "carl"}, query="SELECT the ﬁle"),
            record("q4", model="ann", query="nobody"),
        )
    )
    yield rig
    rig.store.close()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"same": (("user_id", "ann"),)}, ["q0", "q2"], id="in that field only"),
        pytest.param({"same": (("user_id", "ann"), ("session_id", "s"))}, ["q2"], id="two fields"),
        pytest.param({"same": (("user_id", ""),)}, ["q4"], id="not recorded"),
        pytest.param({"same": (("user_id", "an"),)}, [], id="not the beginning of a value"),
        pytest.param({"same": (("user_id", "carl"),)}, [], id="a tag of that name is no field"),
        pytest.param({"words": "ANN bob"}, ["q2"], id="words in any case"),
        pytest.param({"words": "file"}, ["q3"], id="words as a reader sees them"),
        pytest.param({"words": "ann", "same": (("session_id", "bob"),)}, ["q0"], id="both"),
    ],
)
def test_the_records_that_fit_are_found(rig, asked, expected):
    words = asked.get("words")
    query_filter = QueryFilter(
        0.0, 2 * NOON, "", (), 10, same=asked.get("same", ()),
        words=None if words is None else WordSearch.of(words),
    )  # fmt: skip
    with rig.store.reader() as reader:
        places = ContentSearch(query_filter).places(reader, 0)
    found = {at: msgspec.msgpack.decode(each, type=QueryRecord) for at, each in places.items()}
    assert [each.query_id for each in found.values()] == expected
    assert [f"q{at}" for at in found] == expected


def test_a_tag_is_found_by_name_and_value(rig):
    query_filter = QueryFilter(0.0, 2 * NOON, "", (), 10)
    with rig.store.reader() as reader:
        assert [*ContentSearch(query_filter, [("team", "ann")]).places(reader, 0)] == [1]
        assert not ContentSearch(query_filter, [("team", "bob")]).places(reader, 0)
