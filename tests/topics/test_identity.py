"""Topics of two days, matched by the queries that they have in common."""

import numpy as np
import pytest

from ragmon.topics.identity import BothLabels, KnownTopic, recognize

A, B = (KnownTopic(id=name, words=(name,), first_seen=1.0) for name in "ab")


def changes(known, earlier, later, topics):
    both = BothLabels(
        np.array(earlier, dtype=np.int32),
        np.array(later, dtype=np.int32),
        np.ones(len(earlier), dtype=np.int64),
    )
    words = [(f"topic{at}",) for at in range(topics)]
    return [(one.change, one.of) for one in recognize(known, both, words, 2.0)]


@pytest.mark.parametrize(
    ("earlier", "later", "topics", "expected"),
    [
        pytest.param("aabb", "0011", 2, [("same", ()), ("same", ())], id="the same"),
        pytest.param("aabb", "1100", 2, [("same", ()), ("same", ())], id="in another order"),
        pytest.param(
            "aaaaabb", "0001122", 3, [("same", ()), ("split", ("a",)), ("same", ())], id="split"
        ),
        pytest.param("aaabb", "00000", 1, [("merged", ("b",))], id="merged"),
        pytest.param("aabb--", "001122", 3, [("same", ())] * 2 + [("new", ())], id="new"),
        pytest.param("------", "001122", 3, [("new", ())] * 3, id="nothing in common"),
    ],
)
def test_the_origin_of_each_topic(earlier, later, topics, expected):
    places = {"a": 0, "b": 1, "-": -1}
    pairs = [places[name] for name in earlier], [int(name) for name in later]
    assert changes((A, B), *pairs, topics) == expected


def test_nothing_is_known_on_the_first_day():
    assert changes((), [-1, -1], [0, 1], 2) == [("new", ()), ("new", ())]


def test_the_larger_part_of_a_split_topic_goes_on():
    labels = BothLabels(
        np.zeros(10, dtype=np.int32),
        np.array([1] * 6 + [0] * 4, dtype=np.int32),
        np.ones(10, dtype=np.int64),
    )
    small, large = recognize((A,), labels, [("x",), ("y",)], 2.0)
    assert (large.id, large.first_seen) == ("a", 1.0)
    assert (small.change, small.first_seen) == ("split", 2.0)
    assert small.id != "a"
