"""Metrics by the content of the retrieved texts, where no ids were judged."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

_WORDS = re.compile(r"\w+")


def plain(text: str) -> str:
    """Words alone, in lower case, between single spaces."""
    return " ".join(_WORDS.findall(text.casefold()))


def contains(text: str, phrase: str) -> bool:
    """True if a text has the words of a phrase in that order, whatever the case and punctuation."""
    words = plain(phrase)
    return bool(words) and f" {words} " in f" {plain(text)} "


def facet_recall(ranked: Sequence[str], facets: Mapping[str, Collection[str]], k: int) -> float:
    """Coverage recall, also subtopic recall: facets with a document among the first k, over all.

    Args:
        ranked: ids, best first.
        facets: the ids that cover each facet of the question; at least one facet.
        k: ranks looked at.

    Raises:
        ValueError: no facets, or k < 1.

    Source: Zhai, Cohen & Lafferty (2003), SIGIR, 10-17.
    """
    _check(facets, "facets", k)
    first = set(ranked[:k])
    return sum(not first.isdisjoint(ids) for ids in facets.values()) / len(facets)


def nugget_recall(texts: Sequence[str], nuggets: Collection[str], k: int | None = None) -> float:
    """Nuggets (short facts) that the first k texts hold word by word, over all nuggets.

    Raises:
        ValueError: no nuggets, or k < 1.

    Source: Lin & Demner-Fushman (2005), HLT/EMNLP, 931-938; here by words, not by assessors.
    """
    return keyword_recall(texts, nuggets, k)


def keyword_recall(texts: Sequence[str], keywords: Collection[str], k: int | None = None) -> float:
    """Keywords found in any of the first k texts, over all keywords.

    Raises:
        ValueError: no keywords, or k < 1.
    """
    _check(keywords, "keywords", k)
    hits = (any(_holds(texts[:k], keyword)) for keyword in keywords)
    return sum(hits) / len(keywords)


def keyword_reciprocal_rank(texts: Sequence[str], keyword: str) -> float:
    """1 / rank of the first text that holds the keyword; 0 when none does."""
    return next((1.0 / rank for rank, has in enumerate(_holds(texts, keyword), 1) if has), 0.0)


def keyword_ndcg(texts: Sequence[str], keyword: str, k: int | None = None) -> float:
    """NDCG@k where a text is relevant when it holds the keyword.

    What the corpus holds beyond the retrieved texts is unknown, so the ideal ranking is the best
    order of what was retrieved: it measures the order, not what was missed.

    Raises:
        ValueError: k < 1.
    """
    _check([keyword], "keyword", k)
    holds = list(_holds(texts, keyword))
    best = _discounted(sorted(holds, reverse=True)[:k])
    return _discounted(holds[:k]) / best if best else 0.0


def chunk_attribution(retrieved: Sequence[str], cited: Collection[str]) -> float:
    """Retrieved chunks that the answer cites, over all retrieved.

    Raises:
        ValueError: nothing was retrieved.
    """
    if not len(retrieved):
        raise ValueError("nothing was retrieved")
    known = set(cited)
    return sum(key in known for key in retrieved) / len(retrieved)


def _holds(texts: Iterable[str], keyword: str) -> Iterable[bool]:
    return (contains(text, keyword) for text in texts)


def _discounted(relevant: Iterable[bool]) -> float:
    return sum(1.0 / math.log2(rank + 1) for rank, is_hit in enumerate(relevant, 1) if is_hit)


def _check(items: Collection[str], name: str, k: int | None) -> None:
    if isinstance(items, str):
        raise TypeError(f"{name} is the text {items!r}; give a list")
    if not len(items):
        raise ValueError(f"no {name}")
    if k is not None and k < 1:
        raise ValueError(f"k is {k}; it counts ranks from 1")
