"""Groups that many drawings agree on, in place of those of one.

The borders that one partition of a graph draws are a matter of chance. So parts of the questions
are drawn many times and grouped; two neighbours that mostly end in the same group are linked
strongly in the graph that is grouped at last.

Source: Lancichinetti and Fortunato (2012), Scientific Reports 2:336; Monti et al. (2003), Machine
Learning 52:91-118.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ragmon.topics.communities import communities, graph_of, of_size
from ragmon.topics.neighbours import Neighbours

RESOLUTION = 1.0
ROUNDS = 16
NEIGHBOURS = 20
"""Neighbours of each question whose agreement is asked for."""
LINKED = 10
"""The nearest of them that one drawing links."""
_DRAWN = 0.5  # share of the questions in a drawing

Labels = NDArray[np.int32]
Floats = NDArray[np.float32]


def agreed_groups(
    near: Neighbours,
    spread: Callable[[Labels], Labels],
    least: int,
    seed: int,
    breathe: Callable[[], None] = lambda: None,
) -> Labels:
    """Groups of questions; -1 where one is in none.

    Args:
        near: the NEIGHBOURS of each.
        spread: groups of some (-1: of none) to the nearest group of each.
        least: questions that make a group.
        seed: of the drawings.
        breathe: called now and then; it may pause.
    """
    order = np.argsort(-near.similarity, axis=1, kind="stable")
    near = Neighbours(
        np.take_along_axis(near.places, order, axis=1),
        np.take_along_axis(near.similarity, order, axis=1),
    )
    chance = np.random.default_rng(seed)
    agreed = np.zeros(near.places.shape, dtype=np.float32)
    for turn in range(ROUNDS):
        breathe()
        linked = _drawn(near, chance.random(len(near.places)) < _DRAWN)
        groups = of_size(communities(graph_of(linked), RESOLUTION, seed + turn), least)
        groups = spread(groups)
        agreed += groups[:, None] == groups[near.places]
    weights = near.similarity * np.square(agreed / ROUNDS)
    near = near._replace(similarity=weights.astype(np.float32))
    return of_size(communities(graph_of(near), RESOLUTION, seed), least)


def _drawn(near: Neighbours, is_in: NDArray[np.bool_]) -> Neighbours:
    """Links among the questions of a drawing."""
    similarity = np.where(is_in[near.places] & is_in[:, None], near.similarity, np.float32(0.0))
    place = np.cumsum(similarity > 0.0, axis=1)
    return near._replace(similarity=np.where(place <= LINKED, similarity, np.float32(0.0)))
