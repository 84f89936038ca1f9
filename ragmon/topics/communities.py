"""Communities of a graph, by modularity: groups more connected than chance would have it.

Source: Blondel et al. (2008), J. Stat. Mech. P10008; with the queue of Ozaki, Tezuka and Inaba
(2016), so that only nodes whose neighbours moved are looked at again.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ragmon.topics.neighbours import Neighbours

Labels = NDArray[np.int32]
Graph = list[dict[int, float]]
_MOST_LEVELS = 20


def communities(graph: Graph, resolution: float, seed: int) -> Labels:
    """The community of each node, numbered from 0 in the order of their first nodes.

    Args:
        graph: weights by neighbour, in both directions; a node's own weight counts twice.
        resolution: above 1 makes more and smaller communities.
        seed: of the order in which nodes are looked at.
    """
    chance = np.random.default_rng(seed)
    labels = np.arange(len(graph), dtype=np.int32)
    for _ in range(_MOST_LEVELS):
        moved = _move(graph, resolution, chance.permutation(len(graph)).tolist())
        names = {name: at for at, name in enumerate(dict.fromkeys(moved))}
        level = np.array([names[name] for name in moved], dtype=np.int32)
        labels = level[labels]
        if len(names) == len(graph):
            break
        graph = _merged(graph, level.tolist(), len(names))
    return labels


def graph_of(neighbours: Neighbours) -> Graph:
    """The graph of neighbours; two that are each other's count twice."""
    graph: Graph = [{} for _ in range(len(neighbours.places))]
    pairs = zip(neighbours.places.tolist(), neighbours.similarity.tolist(), strict=True)
    for at, (places, similarity) in enumerate(pairs):
        own = graph[at]
        for other, weight in zip(places, similarity, strict=True):
            if weight > 0.0:
                own[other] = own.get(other, 0.0) + weight
                graph[other][at] = graph[other].get(at, 0.0) + weight
    return graph


def of_size(labels: Labels, least: int) -> Labels:
    """Labels of the groups that are large enough, the largest first; -1 for the rest."""
    sizes = np.bincount(labels[labels >= 0])
    order = np.argsort(-sizes, kind="stable")
    kept = order[sizes[order] >= least]
    places = np.full(len(sizes) + 1, -1, dtype=np.int32)  # the last one is for -1
    places[kept] = np.arange(len(kept))
    return places[labels]


def _move(graph: Graph, resolution: float, order: list[int]) -> list[int]:
    """Move nodes to the best of their neighbours' communities until none gains."""
    degree = [sum(edges.values()) for edges in graph]
    total = sum(degree)
    label, weight_of = list(range(len(graph))), list(degree)
    queue, waits = deque(order), [True] * len(graph)
    while queue and total:
        at = queue.popleft()
        waits[at] = False
        links: dict[int, float] = {}
        for other, weight in graph[at].items():
            if other != at:
                links[label[other]] = links.get(label[other], 0.0) + weight
        before = label[at]
        weight_of[before] -= degree[at]
        pull = resolution * degree[at] / total
        best, gain = before, links.get(before, 0.0) - pull * weight_of[before]
        for name, weight in links.items():
            other_gain = weight - pull * weight_of[name]
            if other_gain > gain + 1e-12:
                best, gain = name, other_gain
        weight_of[best] += degree[at]
        if best == before:
            continue
        label[at] = best
        for other in graph[at]:
            if not waits[other] and label[other] != best:
                waits[other] = True
                queue.append(other)
    return label


def _merged(graph: Graph, label: list[int], count: int) -> Graph:
    """The graph of the communities."""
    merged: Graph = [{} for _ in range(count)]
    for at, edges in enumerate(graph):
        own = merged[label[at]]
        for other, weight in edges.items():
            own[label[other]] = own.get(label[other], 0.0) + weight
    return merged
