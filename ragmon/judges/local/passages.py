"""Cuts of texts to what a model reads at once. Pure: the tokenizer's count is passed in."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from ragmon.judges.grounding.words import sentences

Count = Callable[[str], int]
"""Tokens of a text, without special ones."""

Span = tuple[int, int]

_OVERLAP = 0.2  # of a window, so that what stands at a cut is read whole in one of both


def windows(text: str, size: int, count: Count) -> list[Span]:
    """Spans that cover a text, each of at most ``size`` tokens; neighbours overlap.

    A text that fits is one span. Cuts lie between sentences; a sentence longer than the overlap is
    cut between words.
    """
    if count(text) <= size:
        return [(0, len(text))]
    units = _units(text, size, count)
    costs = [count(text[begin:end]) for begin, end in units]
    spans: list[Span] = []
    first = 0
    while first < len(units):
        last = _filled(costs, first, size)
        spans.append((units[first][0], units[last - 1][1]))
        if last == len(units):
            break
        first = max(first + 1, _stepped_back(costs, last, int(size * _OVERLAP)))
    return spans


def split(text: str, size: int, count: Count) -> list[str]:
    """The texts of ``windows``."""
    return [text[begin:end] for begin, end in windows(text, size, count)]


def grouped(passages: Sequence[str], costs: Sequence[int], budget: int) -> list[list[str]]:
    """Passages in order, as many together as the budget of tokens holds; at least one."""
    groups: list[list[str]] = []
    used = budget
    for passage, cost in zip(passages, costs, strict=True):
        if not groups or used + cost + 1 > budget:  # 1: the line break between two
            groups.append([])
            used = cost
        else:
            used += cost + 1
        groups[-1].append(passage)
    return groups


def sentence_chunks(text: str, size: int, count: Count) -> list[str]:
    """A document in parts of whole sentences, without overlap, as MiniCheck's authors cut it.

    Args:
        text: the document.
        size: of a part, in what ``count`` counts; a longer sentence is cut with overlap.
        count: of tokens or words.
    """
    chunks: list[str] = []
    used = size
    for begin, end in sentences(text):
        for sentence in split(text[begin:end].strip(), size, count):
            cost = count(sentence)
            if not chunks or used + cost > size:
                chunks.append(sentence)
                used = cost
            else:
                chunks[-1] += _joint(text[:begin], text[begin:end]) + sentence
                used += cost
    return chunks


def _joint(before: str, after: str) -> str:
    """White space between two sentences: a line break where there is one."""
    blank = before[len(before.rstrip()) :] + after[: len(after) - len(after.lstrip())]
    return "\n" if "\n" in blank else " "


def _filled(costs: Sequence[int], first: int, size: int) -> int:
    """The end of the units from ``first`` on that fit; at least one."""
    used, last = costs[first], first + 1
    while last < len(costs) and used + costs[last] <= size:
        used += costs[last]
        last += 1
    return last


def _stepped_back(costs: Sequence[int], last: int, overlap: int) -> int:
    """The first of the units before ``last`` that together fit into the overlap."""
    used, first = 0, last
    while first > 0 and used + costs[first - 1] <= overlap:
        first -= 1
        used += costs[first]
    return first


def _units(text: str, size: int, count: Count) -> list[Span]:
    """Sentences, or parts of them that are at most a fifth of a window, so that some overlap."""
    starts = [begin for begin, _ in sentences(text)] or [0]
    starts[0] = 0
    units: list[Span] = []
    for begin, end in pairwise([*starts, len(text)]):
        units += _parts(text, begin, end, max(1, int(size * _OVERLAP)), count)
    return units


def _parts(text: str, begin: int, end: int, size: int, count: Count) -> list[Span]:
    """A stretch halved between words until each part fits."""
    if end - begin < 2 or count(text[begin:end]) <= size:
        return [(begin, end)]
    middle = (begin + end) // 2
    space = text.find(" ", middle, end - 1)
    cut = space + 1 if space >= 0 else middle
    return [*_parts(text, begin, cut, size, count), *_parts(text, cut, end, size, count)]
