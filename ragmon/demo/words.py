"""Text as the terms that retrieval and answering count."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

_WORD = re.compile(r"[a-z0-9]+|[+\-*/%<>=!@~&|^]+")
# Without Python's keywords: here `is`, `not` and `with` are what people ask about.
_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
        a about above am an any are at be been but by can cannot could d did do does doing don
        had has have having he her him his how i into isn it its itself ll m me my no nor of on
        other our out over own please re s shall she should so some such t than that the their
        them then there these they this those to too under up used using ve very was we were
        what when where which who whom whose why will would you your
        """,
    )
)


def terms(text: str) -> list[str]:
    """Lower-case stems of a text in order, without the commonest words.

    ``__getattr__`` and ``getattr()`` give the same term, so do ``lists`` and ``list``; operators
    are terms of their own.
    """
    return [stem(word) for word in _WORD.findall(text.lower()) if word not in _COMMON]


def stem(word: str) -> str:
    """A word without its plural ending.

    Source: the S-stemmer of Harman (1991), How effective is suffixing?, JASIS 42:7-15.
    """
    if len(word) < 4 or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word if word.endswith(("us", "ss")) else word[:-1]


def rarity(texts: Iterable[Iterable[str]]) -> Mapping[str, float]:
    """Inverse document frequency of each term: ln(1 + texts / texts holding it), above zero."""
    documents = [set(text) for text in texts]
    held_by = Counter(term for document in documents for term in document)
    return {term: math.log(1 + len(documents) / n) for term, n in held_by.items()}
