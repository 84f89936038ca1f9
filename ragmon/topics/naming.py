"""Words that name topics: frequent in one topic, rare in the others."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from ragmon.topics.terms import words_of

MOST_WORDS = 4
_OWN_SHARE = 0.4  # of a word's questions that a topic it names has at least
LEAST_ASKERS = 3
"""People who must have used a word before it names a topic.

Names are stored with incidents and shown to everybody: the word of one person stays out, and what
is erased of one leaves a word that others used as well.
"""


def names(
    texts: Sequence[str],
    labels: Sequence[int],
    topics: int,
    askers: Sequence[Sequence[int]],
) -> list[tuple[str, ...]]:
    """The words of each topic, the most telling first.

    Args:
        texts: distinct questions.
        labels: topic of each; -1: none.
        topics: their number.
        askers: numbers of some people who asked each question; 0: nobody more.

    Source: class-based TF-IDF, as in Grootendorst (2022), arXiv:2203.05794; a word counts once a
    question.
    """
    within = [Counter[str]() for _ in range(topics)]
    overall: Counter[str] = Counter()
    sizes = Counter(labels)
    used_by: dict[str, set[int]] = {}
    for text, label, people in zip(texts, labels, askers, strict=True):
        words = {word for word in words_of(text) if len(word) > 1 and not word.isdigit()}
        overall.update(words)
        _note(used_by, words, people)
        if label >= 0:
            within[label].update(words)
    for counted in within:
        for word in [word for word in counted if len(used_by[word]) < LEAST_ASKERS]:
            del counted[word]
    return [_telling(within[topic], overall, sizes[topic], len(texts)) for topic in range(topics)]


def _note(used_by: dict[str, set[int]], words: Iterable[str], people: Iterable[int]) -> None:
    """Note who used some words, as far as it matters."""
    asked_by = {person for person in people if person}
    for word in words:
        users = used_by.setdefault(word, set())
        if len(users) < LEAST_ASKERS:
            users |= asked_by


def _telling(
    within: Counter[str], overall: Counter[str], size: int, questions: int
) -> tuple[str, ...]:
    """Words by how often they are in the topic, and how much more often than elsewhere.

    Those asked mostly elsewhere, such as "what" and "does", come last: they tell of no topic.
    """
    scores = {
        word: (count / size) * math.log(max(1.0, (count / size) / (overall[word] / questions)))
        for word, count in within.items()
        if count > 1 or size < 10
    }
    common = {word for word in scores if within[word] < _OWN_SHARE * overall[word]}
    best = sorted(scores, key=lambda word: (word in common, -scores[word], word))[: 3 * MOST_WORDS]
    chosen: list[str] = []
    for word in best:
        stem = word[:5]
        if scores[word] > 0.0 and not any(other.startswith(stem) for other in chosen):
            chosen.append(word)
    return tuple(chosen[:MOST_WORDS])
