"""Passages that the sentences of an answer rest on, for people who check a verdict.

The verdict itself weighs more (``evidence``); here each sentence is shown beside the one sentence
of a chunk that shares most with it, if that is at least half of what it says.
"""

import functools
from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from ragmon.judges.grounding import model, words
from ragmon.judges.grounding.evidence import MAX_ANSWER_CHARACTERS
from ragmon.judges.grounding.passages import MAX_CONTEXT_CHARACTERS, MAX_MENTIONS
from ragmon.judges.grounding.words import Vocabulary

_LEAST_SHARE = 0.5
"""Part of a sentence's words, weighted by rarity, that a passage has to hold."""
_MOST_WORDS = 12


class SentenceSupport(Struct, frozen=True):
    """A sentence of an answer, and the sentence of a chunk that it shares most with."""

    start: int  # characters of the answer
    end: int
    chunk: int  # its position
    chunk_start: int  # characters of its text
    chunk_end: int
    share: float  # of the sentence's words, weighted by rarity; in (0, 1]
    shared: tuple[str, ...]  # words, rarest first


@functools.cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(model.rarity_weights(model.load_artefact().rarity), limit=20_000)


class _Sentence(Struct, frozen=True):
    chunk: int
    start: int
    end: int


def supports(answer: str, chunk_texts: Sequence[str]) -> tuple[SentenceSupport, ...]:
    """The sentences of an answer that a passage supports, in order.

    Args:
        answer: its first 20,000 characters are read.
        chunk_texts: retrieved, best first; 150,000 characters are read.
    """
    vocabulary, supported = _vocabulary(), []
    mentions = _mentions(chunk_texts, vocabulary)
    text = words.without_markers(answer[:MAX_ANSWER_CHARACTERS])
    for start, end in words.sentences(text):
        support = _support(text, start, end, mentions, vocabulary)
        if support is not None:
            supported.append(support)
    return tuple(supported)


def _mentions(texts: Sequence[str], vocabulary: Vocabulary) -> dict[str, list[_Sentence]]:
    """Sentences of the chunks by the stems that they hold."""
    mentions: dict[str, list[_Sentence]] = defaultdict(list)
    left = MAX_CONTEXT_CHARACTERS
    for chunk, text in enumerate(texts):
        part = words.without_markers(text[: max(0, left)])
        left -= len(part)
        for start, end in words.sentences(part):
            sentence = _Sentence(chunk, start, end)
            for stem in _content(part, start, end, vocabulary):
                if len(mentions[stem]) < MAX_MENTIONS:
                    mentions[stem].append(sentence)
    return mentions


def _content(text: str, start: int, end: int, vocabulary: Vocabulary) -> dict[str, str]:
    """Content words of a sentence by their stems."""
    tokens = words.TOKEN.findall(text, start, end)
    return {vocabulary[token].stem: token for token in tokens if vocabulary[token].weight}


def _support(
    text: str,
    start: int,
    end: int,
    mentions: dict[str, list[_Sentence]],
    vocabulary: Vocabulary,
) -> SentenceSupport | None:
    content = _content(text, start, end, vocabulary)
    weights = {stem: vocabulary[token].weight for stem, token in content.items()}
    total = sum(weights.values())
    shared: dict[_Sentence, list[str]] = defaultdict(list)
    for stem in content:
        for sentence in mentions.get(stem, ()):
            shared[sentence].append(stem)
    if not shared:
        return None
    best = max(shared, key=lambda one: (sum(weights[stem] for stem in shared[one]), -one.chunk))
    share = sum(weights[stem] for stem in shared[best]) / total
    if share < _LEAST_SHARE:
        return None
    stems = sorted(shared[best], key=lambda stem: -weights[stem])[:_MOST_WORDS]
    common = tuple(content[stem] for stem in stems)
    return SentenceSupport(start, end, best.chunk, best.start, best.end, min(share, 1.0), common)
