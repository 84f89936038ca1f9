"""Spans that come with a commit, in every kind of store: durable with the position, once."""

import pytest

from ragmon.stores.protocols import SpanRow
from tests.support.stores import KINDS, commit_of, copied, nothing, opened

TRACE, OTHER = b"\x01" * 16, b"\x02" * 16


@pytest.mark.parametrize("kind", KINDS)
def test_spans_of_a_commit_are_there_with_its_position(kind, tmp_path):
    (tmp_path / "first").mkdir()
    store = opened(kind, tmp_path / "first")
    rows = (SpanRow(TRACE, 2, True, b"one"), SpanRow(OTHER, 1, False, b"two"))
    store.shard.commit(nothing(spans=rows, offsets=(("kafka", b"7"),)))
    store.shard.commit(commit_of(store, ["a"], [1.0], spans=(SpanRow(TRACE, 1, False, b"three"),)))
    target = copied(tmp_path / "first", tmp_path / "second")
    store.close()
    again = opened(kind, target)
    assert again.shard.offset("kafka") == b"7"
    assert again.shard.spans().bodies([TRACE, OTHER]) == [[b"one", b"three"], [b"two"]]
    assert sorted(again.shard.spans().pending()) == [(TRACE, 3, True), (OTHER, 1, False)]
    again.close()
