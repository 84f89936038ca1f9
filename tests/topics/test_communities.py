"""Communities of small graphs, by hand."""

from ragmon.topics.communities import communities


def graph_of(edges, nodes):
    graph = [{} for _ in range(nodes)]
    for one, other in edges:
        graph[one][other] = graph[other][one] = 1.0
    return graph


def clique(*nodes):
    return [(one, other) for one in nodes for other in nodes if one < other]


def test_two_cliques_with_a_bridge_are_two():
    edges = [*clique(0, 1, 2, 3), *clique(4, 5, 6, 7), (3, 4)]
    labels = communities(graph_of(edges, 8), 1.0, 0).tolist()
    assert labels == [labels[0]] * 4 + [labels[4]] * 4
    assert labels[0] != labels[4]


def test_a_node_without_neighbours_is_alone():
    labels = communities(graph_of(clique(0, 1, 2), 4), 1.0, 0).tolist()
    assert labels[:3] == [labels[0]] * 3
    assert labels[3] != labels[0]


def test_no_edges_and_no_nodes():
    assert communities([], 1.0, 0).tolist() == []
    assert len(set(communities(graph_of([], 3), 1.0, 0).tolist())) == 3


def test_a_higher_resolution_cuts_finer():
    ring = [edge for at in range(0, 60, 3) for edge in clique(at, at + 1, at + 2)]
    ring += [(at + 2, (at + 3) % 60) for at in range(0, 60, 3)]
    counts = [
        len(set(communities(graph_of(ring, 60), resolution, 0).tolist()))
        for resolution in (0.3, 1.0, 5.0)
    ]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
