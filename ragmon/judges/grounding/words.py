"""Words, their weights, and sentences: everything that looks at characters.

Tokens are runs of letters and digits; numbers keep their inner points and commas. Matching is
lexical, so words are folded (case, accents, possessive, light English stemming, number words)
until two writings of one thing are equal. All patterns are linear in the text.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping

from msgspec import Struct

from ragmon.judges.grounding.lexicon import (
    IRREGULAR,
    META_WORDS,
    NEGATIONS,
    NUMBER_WORDS,
    STOP_WORDS,
)

_MARKS = "[\u0300-\u036f\u064b-\u065f]"  # of accents that are characters of their own (NFD)
TOKEN = re.compile(
    r"\d+(?:[.,]\d+)*(?:st|nd|rd|th|s)?(?![^\W_])"  # 3  1,000  6.15.0  21st  1990s
    rf"|[^\W_]+(?:(?:['’]|{_MARKS}{{1,30}}['’]?)[^\W_]+)*{_MARKS}{{0,30}}"
)
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)*)(?:st|nd|rd|th|s)?")
_BREAK = re.compile(r"(?<=[.!?])([\"'”’)\]]*)\s+(?=[\"'“‘(\[*•-]?[^\W_a-z])|\n")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|No|Inc|Ltd|Co|e\.g|i\.e|[A-Z])\.$")
# Not part of what is claimed: citation markers, addresses, list numbers, "passage 2".
_MARKER = re.compile(
    r"\[\d{1,3}(?:[,;–-]\d{1,3}){0,8}\]"
    r"|(?:https?://|www\.)\S+"
    r"|(?:^|(?<=\n)|(?<=[.!?:;] ))[ \t]{0,8}\(?\d{1,2}[.)](?=\s)"
    r"|(?<=passage |ocument )\d{1,2}\b"
)
_CAMEL = re.compile(r"(?<=[a-z]{3})(?=[A-Z][a-z])")
# Scripts whose words the token pattern cannot find: without spaces (Chinese, Japanese, Thai,
# Lao, Burmese, Khmer) or written with combining vowels (the Indic ones).
_UNSEGMENTED = re.compile("[\u0900-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")

MAX_SENTENCE_WORDS = 80
"""A longer one (a table, a JSON line) is cut: agreement inside it means little."""

_META_WEIGHT = 0.2
_NUMBER_WEIGHT = 0.9


class Term(Struct, frozen=True, gc=False):
    """Stem and weight of a word."""

    stem: str
    weight: float  # 0 for function words, else (0, 1] by rarity
    number: bool = False
    negation: bool = False


def stem(word: str) -> str:
    """Light English suffix stripping of a lower-case word; close to Porter's step 1."""
    if len(word) <= 3:
        return word
    word = _singular(word)
    for suffix in ("ing", "ed"):
        root = word[: -len(suffix)]
        if word.endswith(suffix) and len(root) >= 3 and any(c in "aeiouy" for c in root):
            doubled = len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz"
            word = root[:-1] if doubled else root
            break
    if len(word) > 5 and word.endswith("ly"):
        word = word[:-2]
    if len(word) > 3 and word.endswith("e"):
        word = word[:-1]
    return f"{word[:-1]}i" if len(word) > 3 and word.endswith("y") else word


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def fold(token: str) -> str:
    """Lower case, no accents, no possessive."""
    word = token.lower().replace("’", "'")
    if not word.isascii():
        decomposed = unicodedata.normalize("NFKD", word)
        word = "".join(c for c in decomposed if not unicodedata.combining(c)) or word
    return word.removesuffix("'s")


MAX_TOKEN = 64
"""Characters of the longest token that is remembered; no word of a language is longer."""


class Vocabulary(dict[str, Term]):
    """Terms by token, worked out once a token. Bounded: past ``limit`` it starts afresh.

    Longer tokens than a word (keys, encoded data) are worked out each time they are met.
    """

    def __init__(self, rarity: Mapping[str, float], limit: int = 100_000) -> None:
        """``rarity`` gives a weight in (0, 1] by stem; a stem it does not hold weighs 1."""
        super().__init__()
        self._rarity = rarity
        self._limit = limit

    def __missing__(self, token: str) -> Term:
        if len(token) > MAX_TOKEN:
            return self._term(fold(token))
        if len(self) >= self._limit:
            self.clear()
        term = self[token] = self._term(fold(token))
        return term

    def _term(self, word: str) -> Term:
        if number := NUMBER_WORDS.get(word) or _plain_number(word):
            return Term(number, _NUMBER_WEIGHT, number=True)
        negation = word in NEGATIONS or word.endswith("n't")
        if word in STOP_WORDS or "'" in word or len(word) == 1:
            return Term(word, 0.0, negation=negation)
        root = IRREGULAR.get(word) or stem(word)
        weight = self._rarity.get(root, 1.0)
        if word in META_WORDS:
            weight *= _META_WEIGHT
        return Term(root, weight, negation=negation)


def _plain_number(word: str) -> str | None:
    """A written number without grouping, ordinal ending or trailing zeros: 1,000.50 is 1000.5."""
    match = _NUMBER.fullmatch(word)
    if match is None:
        return None
    digits = match[1].replace(",", "")
    if not digits.isascii():  # of another script
        digits = "".join(char if char == "." else str(unicodedata.decimal(char)) for char in digits)
    if digits.count(".") == 1:
        digits = digits.rstrip("0").rstrip(".")
    return digits.lstrip("0") or "0"


def without_markers(text: str) -> str:
    """The text with citation markers and addresses blanked; offsets stay."""
    return _MARKER.sub(lambda match: " " * len(match[0]), text)


def split_camel_case(text: str) -> str:
    """``WheelchairAccessible`` as two words: keys of JSON and column names."""
    return _CAMEL.sub(" ", text)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Spans of sentences, list items and lines that hold more than white space."""
    start = 0
    for match in _BREAK.finditer(text):
        end = match.start() if match[1] is None else match.end(1)
        if match[0] != "\n" and _ABBREVIATION.search(text, max(start, end - 8), end):
            continue
        if not text[start:end].isspace() and start < end:
            yield start, end
        start = match.end()
    if start < len(text) and not text[start:].isspace():
        yield start, len(text)


def is_unsegmented(text: str) -> bool:
    """True if much of a text is in a script whose words the token pattern cannot find."""
    sample = text[:4000]
    return 5 * len(_UNSEGMENTED.findall(sample)) > len(sample)


def is_structured(text: str) -> bool:
    """True if a text looks like JSON, a table or code rather than prose."""
    sample = text[:4000]
    marks = sum(sample.count(mark) for mark in '{}[]":|<>=;_\t')
    return len(sample) > 0 and marks > 0.06 * len(sample)
