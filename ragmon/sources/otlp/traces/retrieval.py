"""What a query retrieved, and which steps did it: retrievers, or else what works as one."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ragmon.sources.otlp.reading.documents import Document
from ragmon.sources.otlp.reading.facts import CHAIN, MODEL, RERANKER, RETRIEVER
from ragmon.sources.otlp.traces.errors import is_failed
from ragmon.sources.otlp.traces.searches import Search, searches
from ragmon.sources.otlp.traces.tree import Node, everything, outermost

_RETRIEVING = ("retriev", "search", "lookup", "knowledge", "similar")


class FieldValue(NamedTuple):
    """Documents, and who spoke of them."""

    documents: list[Document]
    node: Node
    key: str


class Retrieval(NamedTuple):
    """How a query was answered from documents."""

    retrievers: list[Node]
    tools: list[Node]  # an agent's, where nothing else retrieved
    told: FieldValue | None  # None when nobody says

    @property
    def steps(self) -> list[Node]:
        """All that retrieved."""
        return [*self.retrievers, *self.tools]


def retrieval_of(tops: Sequence[Node]) -> Retrieval:
    """The retrieval of one query.

    Retrievers speak first. What they leave open says the step around them, such as a traced
    function around a database client; then the rerankers, an agent's tools, and the whole.
    """
    retrievers, rerankers = outermost(tops, RETRIEVER), outermost(tops, RERANKER)
    told = _all_of(_told(node) for node in retrievers)
    if told is None and (steps := _steps(tops)):
        nodes = [each.node for each in steps]
        inside = {id(each) for each in everything(nodes)}
        retrievers = nodes + [node for node in retrievers if id(node) not in inside]
        told = _all_of(steps)
    if told is None:
        inputs = (FieldValue(node.facts.input_documents or [], node, "input") for node in rerankers)
        told = next((each for each in inputs if each.documents), None)
    reranked = _all_of(_told(node) for node in rerankers)
    if reranked is not None and reranked.documents:
        before = told.documents if told is not None else []
        told = reranked._replace(documents=_in_new_order(before, reranked.documents))
    if told is not None:
        return Retrieval(retrievers, [], told)
    found = searches(tops)
    told = _told_by_tools(found) or next(
        (each for node in tops if (each := _told_at_the_end(node))), None
    )
    return Retrieval(retrievers, [each.node for each in found], told or _passed_on(tops))


def _all_of(several: Iterable[FieldValue | None]) -> FieldValue | None:
    """Documents of all, one after another."""
    known = [each for each in several if each is not None]
    if not known:
        return None
    return known[0]._replace(documents=[each for one in known for each in one.documents])


def _told(node: Node) -> FieldValue | None:
    """What a retriever or reranker says; when it shows none, what is inside may say more."""
    said = node.facts.find("documents")
    best = None if said is None else FieldValue(said.value, node, said.key)
    if best is None or not best.documents:
        best = next(_told_inside(node), best)
    if best is not None and not best.documents and is_failed(node):
        return None
    return best


def _told_inside(node: Node) -> Iterator[FieldValue]:
    for each in everything(node.children):
        if each.role == node.role and (said := each.facts.find("documents")) and said.value:
            yield FieldValue(said.value, each, said.key)


def _steps(tops: Sequence[Node]) -> list[FieldValue]:
    """Chains that return documents and are called like a retriever, or have one inside."""
    nodes = everything(tops)
    generating, retrieving = _around(nodes, MODEL), _around(nodes, RETRIEVER)
    found = []
    walked = [child for top in tops for child in top.children]
    for node in walked:
        told = None
        if node.role == CHAIN and id(node) not in generating:
            told = _told_by_step(node, id(node) in retrieving)
        if told is None:
            walked += node.children
        else:
            found.append(told)
    return found


def _around(nodes: Iterable[Node], role: str) -> set[int]:
    """Which nodes have one of a role inside."""
    held: set[int] = set()
    for node in nodes:
        if node.role == role:
            for above in node.ancestors():
                if id(above) in held:
                    break
                held.add(id(above))
    return held


def _told_by_step(node: Node, holds_retriever: bool) -> FieldValue | None:
    is_named = any(part in node.span.name.lower() for part in _RETRIEVING)
    if is_failed(node) or not (is_named or holds_retriever):
        return None
    said = node.facts.find("passages")
    if said is None or not (said.value or is_named):
        return None
    return FieldValue(said.value, node, said.key)


def _told_by_tools(found: Sequence[Search]) -> FieldValue | None:
    """Documents of all tools that searched; none only when each says so."""
    told = [
        FieldValue(each.documents or [], each.node, each.key) for each in found if each.documents
    ]
    if not told and found and all(each.documents is not None for each in found):
        told = [FieldValue([], found[0].node, found[0].key)]
    return _all_of(told)


def _passed_on(tops: Sequence[Node]) -> FieldValue | None:
    """What a step was given, where the one that retrieved it was not recorded."""
    given = (
        FieldValue(node.facts.input_documents or [], node, "input")
        for node in everything(tops)
        if node.role == CHAIN
    )
    return next((each for each in given if each.documents), None)


def _told_at_the_end(top: Node) -> FieldValue | None:
    """The sources that an application returns beside its answer."""
    said = top.facts.find("passages") if top.role == CHAIN else None
    if said is None or not said.value:
        return None
    are_whole = all(each.text and (each.id or each.score is not None) for each in said.value)
    return FieldValue(said.value, top, said.key) if are_whole else None


def _in_new_order(retrieved: list[Document], reranked: list[Document]) -> list[Document]:
    """What was retrieved, in the order the reranker left it; what it dropped comes last.

    Scores stay those of the retriever: the two have no common scale.
    """
    left = list(retrieved)
    ordered = []
    for document in reranked:
        same = next((each for each in left if _is_same(each, document)), None)
        if same is not None:
            left.remove(same)
        ordered.append(same or document)
    return ordered + left


def _is_same(a: Document, b: Document) -> bool:
    if a.id is not None and b.id is not None:
        return a.id == b.id
    return a.text is not None and a.text == b.text
