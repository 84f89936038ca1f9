"""Topics of a stretch of queries, recognized from the time before."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ragmon.topics.analysis import GroupedQueries, TopicGroup
from ragmon.topics.corpus import Corpus, sample_of
from ragmon.topics.finding import find_topics
from ragmon.topics.identity import BothLabels, KnownTopic, Recognized, recognize
from ragmon.topics.model import TopicModel, kept
from ragmon.topics.naming import LEAST_ASKERS, names
from ragmon.topics.neighbours import TermWeights
from ragmon.topics.terms import Questions

MOST_KEPT_TERMS = 60
"""Terms of a topic that are kept from day to day."""
_TYPICAL = 3
SEED = 20_260_101


class KeptTopic(Struct, frozen=True, kw_only=True):
    """A topic as it is kept from day to day: numbers of its terms, but no text beside its name."""

    known: KnownTopic
    terms: tuple[int, ...]
    weights: tuple[float, ...]


class KeptModel(Struct, frozen=True, kw_only=True):
    """The topics of an earlier day, with the weights of their terms."""

    made_at: float  # unix seconds
    terms: tuple[int, ...] = ()  # rising
    rarity: tuple[float, ...] = ()
    topics: tuple[KeptTopic, ...] = ()

    def model(self) -> TopicModel:
        """The model that assigns questions to them."""
        terms = np.array(self.terms, dtype=np.int32)
        centroids = np.zeros((len(terms), len(self.topics)), dtype=np.float32)
        for at, topic in enumerate(self.topics):
            centroids[np.searchsorted(terms, topic.terms), at] = topic.weights
        return TopicModel(TermWeights(terms, np.array(self.rarity, dtype=np.float32)), centroids)


class Grouping(Struct, frozen=True, kw_only=True):
    """Topics of queries, and what is kept of them for the next day."""

    grouped: GroupedQueries
    kept: KeptModel


def group(
    corpus: Corpus,
    text_of: Callable[[Sequence[int]], list[str]],
    earlier: KeptModel,
    now: float,
    breathe: Callable[[], None] = lambda: None,
) -> Grouping:
    """Find the topics of queries.

    Args:
        corpus: their questions.
        text_of: texts of the questions at some places of the corpus.
        earlier: the topics of an earlier day.
        now: unix seconds.
        breathe: called now and then; it may pause.
    """
    places = sample_of(corpus, SEED)
    sampled = corpus.questions.select(places)
    model, of_sample, nearest, by_vectors = find_topics(corpus, places, SEED, breathe)
    askers = corpus.askers[places].tolist()
    words = names(text_of(places.tolist()), of_sample.tolist(), model.topics, askers)
    breathe()
    every = kept(nearest)
    recognized = recognize(
        [topic.known for topic in earlier.topics],
        BothLabels(earlier.model().recognized(sampled), of_sample, corpus.counts[places]),
        words,
        now,
    )
    typical = _typical(every, nearest.likeness, corpus, model.topics)
    groups = tuple(
        _group(origin, name, corpus.sequences[at].tolist())
        for origin, name, at in zip(recognized, words, typical, strict=True)
    )
    return Grouping(
        grouped=GroupedQueries(
            groups=groups,
            labels=np.where(corpus.asked < 0, np.int32(-2), _of_asked(every, corpus)).tobytes(),
            distinct=len(corpus.questions),
            sampled=len(places),
            clear=int(corpus.counts[nearest.is_clear].sum()),
            by_vectors=by_vectors,
        ),
        kept=_kept(model, groups, now, shared_terms(sampled, corpus.askers[places])),
    )


def _group(origin: Recognized, words: tuple[str, ...], sequences: list[int]) -> TopicGroup:
    return TopicGroup(
        id=origin.id,
        first_seen=origin.first_seen,
        change=origin.change,
        of=origin.of,
        words=words,
        sequences=tuple(sequences),
    )


def _of_asked(every: NDArray[np.int32], corpus: Corpus) -> NDArray[np.int32]:
    return every[corpus.asked] if len(every) else corpus.asked


def _typical(
    labels: NDArray[np.int32], likeness: NDArray[np.float32], corpus: Corpus, topics: int
) -> list[NDArray[np.int64]]:
    """Places of the questions most like each topic; more often asked ones are preferred."""
    score = likeness * (1.0 + 0.1 * np.log(np.maximum(corpus.counts, 1)))
    order = np.lexsort((np.arange(len(labels)), -score, labels))
    starts = np.searchsorted(labels[order], np.arange(topics + 1))
    return [order[first : min(first + _TYPICAL, end)] for first, end in pairwise(starts)]


def shared_terms(questions: Questions, askers: NDArray[np.uint32]) -> NDArray[np.int32]:
    """The terms that ``LEAST_ASKERS`` people or more used, rising.

    The terms of a topic outlive the erasure of those who asked, as its name does; so what fewer
    people used is not kept.

    Args:
        questions: distinct ones.
        askers: people who asked each, shape (n, KEPT_ASKERS); 0: none.
    """
    lengths = np.diff(questions.starts)
    terms = np.repeat(questions.terms.astype(np.uint64), askers.shape[1])
    people = np.repeat(askers, lengths, axis=0).ravel().astype(np.uint64)
    known = people > 0
    pairs = np.unique(terms[known] << np.uint64(32) | people[known])
    numbers, users = np.unique((pairs >> np.uint64(32)).astype(np.int32), return_counts=True)
    return numbers[users >= LEAST_ASKERS]


def _kept(
    model: TopicModel, groups: Sequence[TopicGroup], now: float, shared: NDArray[np.int32]
) -> KeptModel:
    """The strongest terms of each topic, of those that several people used."""
    weights = np.where(np.isin(model.weights.terms, shared)[:, None], model.centroids, 0.0)
    strongest = np.argsort(-weights, axis=0, kind="stable")[:MOST_KEPT_TERMS]
    columns = [
        np.sort(strongest[weights[strongest[:, at], at] > 0.0, at]) for at in range(model.topics)
    ]
    used = np.unique(np.concatenate([*columns, np.zeros(0, np.int64)])).astype(np.int64)
    topics = tuple(
        KeptTopic(
            known=KnownTopic(id=topic.id, words=topic.words, first_seen=topic.first_seen),
            terms=tuple(model.weights.terms[column].tolist()),
            weights=tuple(model.centroids[column, at].tolist()),
        )
        for at, (topic, column) in enumerate(zip(groups, columns, strict=True))
    )
    return KeptModel(
        made_at=now,
        terms=tuple(model.weights.terms[used].tolist()),
        rarity=tuple(model.weights.rarity[used].tolist()),
        topics=topics,
    )
