"""Documents that a query retrieved, and the steps that did it: retrievers, or their stand-ins."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ragmon.sources.otlp.reading.documents import Document, completed
from ragmon.sources.otlp.reading.facts import CHAIN, MODEL, RERANKER, RETRIEVER
from ragmon.sources.otlp.traces.errors import is_failed
from ragmon.sources.otlp.traces.searches import Search, searches
from ragmon.sources.otlp.traces.tree import Node, everything, outermost

_RETRIEVING = ("retriev", "search", "lookup", "knowledge", "similar")


class SourcedDocuments(NamedTuple):
    """Documents, with the node and the key they were read from."""

    documents: list[Document]
    node: Node
    key: str


class Retrieval(NamedTuple):
    """The retrieval steps of a query, and their documents."""

    retrievers: list[Node]
    tools: list[Node]  # an agent's, where nothing else retrieved
    result: SourcedDocuments | None  # None when no span records documents
    by_step: list[tuple[Node, list[Document] | None]]  # None: not recorded

    @property
    def steps(self) -> list[Node]:
        """All steps that retrieved."""
        return [*self.retrievers, *self.tools]


def retrieval_of(tops: Sequence[Node]) -> Retrieval:
    """The retrieval of one query.

    Retrievers come first. Without documents there, they are taken from the step around them, such
    as a traced function around a database client; then from rerankers, tools and the whole.
    """
    retrievers, rerankers = outermost(tops, RETRIEVER), outermost(tops, RERANKER)
    by_node = [(node, _documents_of(node)) for node in retrievers]
    result = _all_of(documents for _, documents in by_node)
    if result is None and (steps := _steps(tops)):
        nodes = [each.node for each in steps]
        by_node = [(each.node, each) for each in steps]
        inside = {id(each) for each in everything(nodes)}
        retrievers = nodes + [node for node in retrievers if id(node) not in inside]
        result = _all_of(steps)
    if result is None:
        inputs = (
            SourcedDocuments(node.facts.input_documents or [], node, "input") for node in rerankers
        )
        result = next((each for each in inputs if each.documents), None)
    reranked = _all_of(_documents_of(node) for node in rerankers)
    if reranked is not None and reranked.documents:
        before = result.documents if result is not None else []
        result = reranked._replace(documents=_in_new_order(before, reranked.documents))
    by_step = [(node, each and each.documents) for node, each in by_node]
    if result is not None:
        return Retrieval(retrievers, [], result, by_step)
    tool_searches = searches(tops)
    by_step += [(search.node, search.documents) for search in tool_searches]
    result = _documents_of_tools(tool_searches) or next(
        (each for node in tops if (each := _documents_of_answer(node))), None
    )
    tools = [search.node for search in tool_searches]
    return Retrieval(retrievers, tools, result or _passed_on(tops), by_step)


def _all_of(several: Iterable[SourcedDocuments | None]) -> SourcedDocuments | None:
    """Documents of all, one after another."""
    known = [each for each in several if each is not None]
    if not known:
        return None
    return known[0]._replace(documents=[each for one in known for each in one.documents])


def _documents_of(node: Node) -> SourcedDocuments | None:
    """Documents of a retriever or reranker; when it shows none, of a step inside."""
    sourced = node.facts.find("documents")
    best = None if sourced is None else SourcedDocuments(sourced.value, node, sourced.key)
    if best is None or not best.documents:
        best = next(_documents_inside(node), best)
    elif any(each.id is None or each.score is None for each in best.documents):
        inside = [each for inner in _documents_inside(node) for each in inner.documents]
        best = best._replace(documents=completed(best.documents, inside))
    if best is not None and not best.documents and (is_failed(node) or node.span.lost):
        return None  # nothing was found, or nothing of it is left
    return best


def _documents_inside(node: Node) -> Iterator[SourcedDocuments]:
    for inner in everything(node.children):
        if inner.role == node.role and (sourced := inner.facts.find("documents")) and sourced.value:
            yield SourcedDocuments(sourced.value, inner, sourced.key)


def _steps(tops: Sequence[Node]) -> list[SourcedDocuments]:
    """Chains that return documents and are called like a retriever, or have one inside."""
    nodes = everything(tops)
    generating, retrieving = _around(nodes, MODEL), _around(nodes, RETRIEVER)
    steps = []
    walked = [child for top in tops for child in top.children]
    for node in walked:
        documents = None
        if node.role == CHAIN and id(node) not in generating:
            documents = _documents_of_step(node, id(node) in retrieving)
        if documents is None:
            walked += node.children
        else:
            steps.append(documents)
    return steps


def _around(nodes: Iterable[Node], role: str) -> set[int]:
    """Identities of the nodes with a node of this role inside."""
    ids: set[int] = set()
    for node in nodes:
        if node.role == role:
            for above in node.ancestors():
                if id(above) in ids:
                    break
                ids.add(id(above))
    return ids


def _documents_of_step(node: Node, holds_retriever: bool) -> SourcedDocuments | None:
    is_named = any(part in node.span.name.lower() for part in _RETRIEVING)
    if is_failed(node) or not (is_named or holds_retriever):
        return None
    sourced = node.facts.find("passages")
    if sourced is None or not (sourced.value or is_named):
        return None
    return SourcedDocuments(sourced.value, node, sourced.key)


def _documents_of_tools(tool_searches: Sequence[Search]) -> SourcedDocuments | None:
    """Documents of all tools that searched; an empty list only when each found none."""
    results = [
        SourcedDocuments(search.documents or [], search.node, search.key)
        for search in tool_searches
        if search.documents
    ]
    if (
        not results
        and tool_searches
        and all(search.documents is not None for search in tool_searches)
    ):
        results = [SourcedDocuments([], tool_searches[0].node, tool_searches[0].key)]
    return _all_of(results)


def _passed_on(tops: Sequence[Node]) -> SourcedDocuments | None:
    """Input documents of a step, for when the retrieving step was not recorded."""
    inputs = (
        SourcedDocuments(node.facts.input_documents or [], node, "input")
        for node in everything(tops)
        if node.role == CHAIN
    )
    return next((each for each in inputs if each.documents), None)


def _documents_of_answer(top: Node) -> SourcedDocuments | None:
    """The sources that an application returns beside its answer."""
    sourced = top.facts.find("passages") if top.role == CHAIN else None
    if sourced is None or not sourced.value:
        return None
    are_whole = all(each.text and (each.id or each.score is not None) for each in sourced.value)
    return SourcedDocuments(sourced.value, top, sourced.key) if are_whole else None


def _in_new_order(retrieved: list[Document], reranked: list[Document]) -> list[Document]:
    """Retrieved documents in the order of the reranker; documents that it dropped come last.

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
