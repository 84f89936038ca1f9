"""The frontier of shards that lag, stand still and come back."""

import math

import pytest

from ragmon.daemon.following import STALLED_AFTER_S, Frontier
from ragmon.records import Position
from ragmon.stores import ShardProgress


def progress(**until):
    return {int(name[1:]): ShardProgress(Position(), at) for name, at in until.items()}


STORIES = [
    pytest.param([(0, {}, math.inf, ())], id="without workers the clock alone counts"),
    pytest.param([(0, {"s1": 50.0, "s2": 40.0}, 40.0, ())], id="the slowest shard holds it"),
    pytest.param(
        [
            (0, {"s1": 50.0, "s2": 40.0}, 40.0, ()),
            (STALLED_AFTER_S, {"s1": 350.0, "s2": 40.0}, 40.0, ()),
            (STALLED_AFTER_S + 1, {"s1": 351.0, "s2": 40.0}, 351.0, (2,)),
            (STALLED_AFTER_S + 2, {"s1": 352.0, "s2": 41.0}, 41.0, ()),
        ],
        id="one that stands still is left out after a while, and comes back",
    ),
    pytest.param(
        [
            (0, {"s1": 50.0, "s2": None}, 50.0, ()),
            (STALLED_AFTER_S + 1, {"s1": 350.0, "s2": None}, 350.0, (2,)),
        ],
        id="one that never told anything holds nothing up",
    ),
    pytest.param(
        [(0, {"s1": 50.0}, 50.0, ()), (STALLED_AFTER_S + 1, {"s1": 50.0}, math.inf, (1,))],
        id="where all stand still, what lasts longer than that is judged by the clock",
    ),
]


@pytest.mark.parametrize("story", STORIES)
def test_the_frontier(story):
    frontier = Frontier()
    for now, until, expected, stalled in story:
        assert frontier.advance(progress(**until), now) == expected
        assert frontier.stalled == stalled
