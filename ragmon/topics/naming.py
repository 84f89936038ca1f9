"""Words that name topics: frequent in one topic, rare in the others."""

import math
from collections import Counter
from collections.abc import Sequence

from ragmon.topics.terms import words_of

MOST_WORDS = 4


def names(texts: Sequence[str], labels: Sequence[int], topics: int) -> list[tuple[str, ...]]:
    """The words of each topic, the most telling first.

    Args:
        texts: distinct questions.
        labels: topic of each; -1: none.
        topics: their number.

    Source: class-based TF-IDF, as in Grootendorst (2022), arXiv:2203.05794; a word counts once a
    question.
    """
    within = [Counter[str]() for _ in range(topics)]
    overall: Counter[str] = Counter()
    sizes = Counter(labels)
    for text, label in zip(texts, labels, strict=True):
        words = {word for word in words_of(text) if len(word) > 1 and not word.isdigit()}
        overall.update(words)
        if label >= 0:
            within[label].update(words)
    return [_telling(within[topic], overall, sizes[topic], len(texts)) for topic in range(topics)]


def _telling(
    within: Counter[str], overall: Counter[str], size: int, questions: int
) -> tuple[str, ...]:
    """Words by how often they are in the topic, and how much more often than elsewhere."""
    scores = {
        word: (count / size) * math.log(max(1.0, (count / size) / (overall[word] / questions)))
        for word, count in within.items()
        if count > 1 or size < 10
    }
    best = sorted(scores, key=lambda word: (-scores[word], word))[: 3 * MOST_WORDS]
    chosen: list[str] = []
    for word in best:
        stem = word[:5]
        if scores[word] > 0.0 and not any(other.startswith(stem) for other in chosen):
            chosen.append(word)
    return tuple(chosen[:MOST_WORDS])
