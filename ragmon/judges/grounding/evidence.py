"""The answer side: how far each sentence rests on the context, as a few shares in [0, 1].

Every share in ``SHARES`` is the part of a sentence's content, weighted by rarity, that lacks one
kind of support, from the weakest (the word occurs somewhere) to the strictest (beside the same
word). They say nearly the same thing with different errors: their sum transfers between data
sets better than any one of them.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import fsum

from msgspec import Struct
from msgspec.structs import replace

from ragmon.judges.grounding import words
from ragmon.judges.grounding.passages import Context, Passage
from ragmon.judges.grounding.words import Term, Vocabulary

SHARES = (
    "novel",  # nowhere in the context
    "outside_sentence",  # not in the best matching sentence
    "outside_two",  # nor in the one that adds most to it
    "without_pair",  # near no content word it is near in the context
    "without_bigram",  # beside no word it is beside in the context
    "names",  # capitalised and outside those two sentences
    "numbers",  # numbers outside those two sentences
)

MAX_ANSWER_CHARACTERS = 20_000
"""About 3 300 words; of a longer answer evenly spaced sentences are judged, up to this much."""

MAX_QUERY_CHARACTERS = 20_000  # its end: a conversation's last turn is the question
MAX_QUESTION_WORDS = 30
SHORT_ANSWER = 3  # content words
_QUESTION_WEIGHT = 0.4  # of its words beside a short answer's: 0.3 to 1 rank alike

_SAME_STATEMENT = 0.6  # coverage from which a differing negation is a contradiction
_RARE = 0.8  # weight from which the first word of a sentence may be a name
_FEW = 2.0  # content words' worth: one name or number alone is little evidence either way


class Evidence(Struct, frozen=True):
    """One sentence of the answer against the context."""

    start: int
    end: int
    content: int  # content words, at least 1
    shares: tuple[float, ...]  # in the order of SHARES; high is unsupported
    contradicts: bool  # the best matching sentence holds most of it, with another negation
    novel_terms: tuple[str, ...]  # as written, rarest first; without the next two
    novel_names: tuple[str, ...]
    novel_numbers: tuple[str, ...]


class _Word(Struct, frozen=True, gc=False):
    """A content word of a sentence."""

    token: str
    position: int  # among all words of the sentence
    term: Term


class _Line(Struct, frozen=True):
    """A sentence with at least one content word."""

    start: int
    end: int
    tokens: list[str]
    terms: list[Term]
    content: list[_Word]

    def stems(self) -> set[str]:
        return {word.term.stem for word in self.content}

    def pairs(self) -> list[tuple[str, str]]:
        return list(pairwise(word.term.stem for word in self.content))

    def bigrams(self) -> list[tuple[str, str]]:
        return list(pairwise(term.stem for term in self.terms))


class _Support(Struct, frozen=True):
    """What of a whole answer occurs in the context."""

    stems: set[str]
    pairs: set[tuple[str, str]]
    bigrams: set[tuple[str, str]]


class _Alignment(Struct, frozen=True):
    """The two sentences of the context that together hold most of a sentence."""

    best: set[str]  # stems found in the best one
    both: set[str]
    negated: bool | None  # the best one; None where there is none, or it is no prose


def weigh(
    answer: str, query: str, context: Context, vocabulary: Vocabulary
) -> tuple[Evidence, ...]:
    """Evidence for each sentence that holds a content word, in order.

    An answer of a word or two ("Asuka") claims them of what was asked: there the question is
    weighed with it, which takes such answers of AttributedQA from 0.75 to 0.83 of AUROC.
    """
    lines = read_answer(answer, vocabulary)
    tokens = words.TOKEN.findall(query[-MAX_QUERY_CHARACTERS:])
    asked = {vocabulary[token].stem for token in tokens}
    if sum(len(line.content) for line in lines) <= SHORT_ANSWER:
        lines = [_with_question(line, tokens[-MAX_QUESTION_WORDS:], vocabulary) for line in lines]
    support = _support(lines, context)
    return tuple(_evidence(line, context, support, asked) for line in lines)


def read_answer(answer: str, vocabulary: Vocabulary) -> list[_Line]:
    """The sentences to judge, tokenised; evenly spaced ones if there are too many."""
    text = words.without_markers(answer)
    spans = list(words.sentences(text))
    step = 1 + len(text) // MAX_ANSWER_CHARACTERS
    lines = [_line(text, start, end, vocabulary) for start, end in spans[::step]]
    return [line for line in lines if line.content]


def _line(text: str, start: int, end: int, vocabulary: Vocabulary) -> _Line:
    tokens = words.TOKEN.findall(text, start, min(end, start + MAX_ANSWER_CHARACTERS))
    return _with_content(start, end, tokens, [vocabulary[token] for token in tokens])


def _with_question(line: _Line, question: list[str], vocabulary: Vocabulary) -> _Line:
    terms = [vocabulary[token] for token in question]
    terms = [replace(term, weight=_QUESTION_WEIGHT * term.weight) for term in terms]
    return _with_content(line.start, line.end, question + line.tokens, terms + line.terms)


def _with_content(start: int, end: int, tokens: list[str], terms: list[Term]) -> _Line:
    content = [
        _Word(token, position, term)
        for position, (token, term) in enumerate(zip(tokens, terms, strict=True))
        if term.weight
    ]
    return _Line(start, end, tokens, terms, content)


def _support(lines: Sequence[_Line], context: Context) -> _Support:
    stems = set().union(*(line.stems() for line in lines))
    pairs = set().union(*(line.pairs() for line in lines))
    bigrams = set().union(*(line.bigrams() for line in lines))
    return _Support(
        set().union(*(stems & passage.stems for passage in context.passages)),
        set().union(*(pairs & passage.pairs for passage in context.passages)),
        set().union(*(bigrams & passage.bigrams for passage in context.passages)),
    )


def _evidence(line: _Line, context: Context, support: _Support, asked: set[str]) -> Evidence:
    total = fsum(word.term.weight for word in line.content)  # the same on every Python
    aligned = _align(line, context)
    negated = any(term.negation for term in line.terms)
    covered = fsum(word.term.weight for word in line.content if word.term.stem in aligned.best)
    novel = [
        word
        for word in line.content
        if word.term.stem not in support.stems and word.term.stem not in asked
    ]
    return Evidence(
        start=line.start,
        end=line.end,
        content=len(line.content),
        shares=_shares(line, aligned, support),
        contradicts=aligned.negated not in {None, negated} and covered >= _SAME_STATEMENT * total,
        novel_terms=_rarest(novel),
        novel_names=tuple(word.token for word in novel if _is_name(word)),
        novel_numbers=tuple(word.token for word in novel if word.term.number),
    )


def _align(line: _Line, context: Context) -> _Alignment:
    """The best sentence, then the one that adds most; ties go to the better ranked chunk."""
    weights: dict[str, float] = {}
    for word in line.content:
        weights[word.term.stem] = weights.get(word.term.stem, 0.0) + word.term.weight
    best, best_stems = _best_sentence(weights, context.passages)
    for stem in best_stems:
        del weights[stem]
    _, second_stems = _best_sentence(weights, context.passages)
    negated = None if best is None or best[0].structured else best[0].negated[best[1]]
    return _Alignment(best_stems, best_stems | second_stems, negated)


def _best_sentence(
    weights: dict[str, float], passages: Sequence[Passage]
) -> tuple[tuple[Passage, int] | None, set[str]]:
    best: tuple[Passage, int] | None = None
    best_weight = 0.0
    for passage in passages:
        held: dict[int, float] = {}
        for stem, weight in weights.items():  # In this order, so that sums repeat exactly.
            for sentence in passage.sentences_of.get(stem, ()):
                held[sentence] = held.get(sentence, 0.0) + weight
        if held:
            sentence, total = max(held.items(), key=lambda item: (item[1], -item[0]))
            if total > best_weight + 1e-9:
                best, best_weight = (passage, sentence), total
    if best is None:
        return None, set()
    passage, sentence = best
    return best, {s for s in weights if sentence in passage.sentences_of.get(s, ())}


def _shares(line: _Line, aligned: _Alignment, support: _Support) -> tuple[float, ...]:
    """In the order of ``SHARES``."""
    paired = [pair in support.pairs for pair in line.pairs()]
    beside = [bigram in support.bigrams for bigram in line.bigrams()]
    paired_left, paired_right = [False, *paired], [*paired, False]
    beside_left, beside_right = [False, *beside], [*beside, False]
    total = novel = alone = apart = unpaired = unbeside = 0.0
    name_weight = number_weight = _FEW
    names = numbers = 0.0
    for index, word in enumerate(line.content):
        term, weight = word.term, word.term.weight
        stem, position = term.stem, word.position
        outside = weight * (stem not in aligned.both)
        total += weight
        novel += weight * (stem not in support.stems)
        alone += weight * (stem not in aligned.best)
        apart += outside
        unpaired += weight * (not (paired_left[index] or paired_right[index]))
        unbeside += weight * (not (beside_left[position] or beside_right[position]))
        if term.number:
            number_weight += weight
            numbers += outside
        elif _is_name(word):
            name_weight += weight
            names += outside
    return (
        novel / total,
        alone / total,
        apart / total,
        unpaired / total,
        unbeside / total,
        names / name_weight,
        numbers / number_weight,
    )


def _is_name(word: _Word) -> bool:
    """Capitalised, and not merely because it begins a sentence."""
    begins = word.position == 0 and word.term.weight < _RARE
    return word.token[0].isupper() and not word.term.number and not begins


def _rarest(novel: Sequence[_Word], most: int = 5) -> tuple[str, ...]:
    plain = [word for word in novel if not word.term.number and not _is_name(word)]
    plain.sort(key=lambda word: -word.term.weight)
    return tuple(dict.fromkeys(word.token for word in plain[:most]))
