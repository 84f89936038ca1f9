"""Metrics of answers that need no language model."""

import re
import string
from collections import Counter
from collections.abc import Collection, Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ROUGE_TOKEN = re.compile(r"[a-z0-9]+")


def exact_match(answer: str, truth: str) -> float:
    """1 when both have the same words, whatever the case, punctuation and articles; else 0.

    Source: Rajpurkar et al. (2016), EMNLP, 2383-2392 (SQuAD).
    """
    return float(_words(answer) == _words(truth))


def token_f1(answer: str, truth: str) -> float:
    """F1 of the words both hold, each counted as often as in both; SQuAD's.

    Two texts without words are equal.
    """
    of_answer, of_truth = Counter(_words(answer)), Counter(_words(truth))
    if not of_answer or not of_truth:
        return float(of_answer == of_truth)
    return 2.0 * (of_answer & of_truth).total() / (of_answer.total() + of_truth.total())


def rouge_l(answer: str, truth: str) -> float:
    """F1 of the longest common subsequence of words; 0 when either has none.

    Words are runs of a-z and 0-9, unstemmed, as in Google's rouge-score.

    Source: Lin (2004), Text Summarization Branches Out, 74-81.
    """
    of_answer = _ROUGE_TOKEN.findall(answer.lower())
    of_truth = _ROUGE_TOKEN.findall(truth.lower())
    if not of_answer or not of_truth:
        return 0.0
    return 2.0 * _common_subsequence(of_answer, of_truth) / (len(of_answer) + len(of_truth))


def context_utilization(
    retrieved: Collection[str], relevant: Collection[str], cited: Collection[str]
) -> float | None:
    """Relevant retrieved chunks that the answer cites, over all relevant retrieved.

    None when nothing relevant was retrieved: the answer had nothing to use.
    """
    usable = set(retrieved) & set(relevant)
    return len(usable & set(cited)) / len(usable) if usable else None


def noise_sensitivity(clean: float, noisy: float) -> float:
    """1 − noisy / clean: what a score loses when irrelevant chunks join the context.

    Raises:
        ValueError: the clean score is not positive.
    """
    if clean <= 0:
        raise ValueError("the clean score is not positive")
    return 1.0 - noisy / clean


def _words(text: str) -> list[str]:
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def _common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Length of the longest common subsequence, one bit a word of ``first``.

    Source: Hyyro (2004), Bit-parallel LCS-length computation revisited, AWOCA.
    """
    places: dict[str, int] = {}
    for at, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << at
    full = (1 << len(first)) - 1
    row = full
    for word in second:
        both = row & places.get(word, 0)
        row = (row + both | row - both) & full
    return len(first) - row.bit_count()
