"""Words of questions and answers, as a search by words sees them."""

import itertools
import re
import unicodedata

from msgspec import Struct

MOST_WORDS = 20
"""Words that one search may ask for."""
# Scripts whose words no space divides: Thai to Tibetan, Myanmar, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_PIECE = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_is_unspaced = re.compile(f"[{_UNSPACED}]").match
_ascii_words = re.compile(r"[a-z0-9_]+").findall


def normalised(text: str) -> str:
    """A text in which words are alike that a reader takes for the same."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text.casefold())


def pieces(text: str) -> list[str]:
    """The words of a normalised text; a stretch without spaces between its words is one."""
    return _ascii_words(text) if text.isascii() else _PIECE.findall(text)


def keys_of(text: str) -> set[str]:
    """Keys of a text in the filter of a block: its words, and pairs of unspaced characters."""
    keys: set[str] = set()
    add_keys(text, keys)
    return keys


def add_keys(text: str, keys: set[str]) -> None:
    """Add ``keys_of`` a text to others."""
    if text.isascii():
        keys.update(_ascii_words(text.lower()))
        return
    for word in set(_PIECE.findall(normalised(text))):
        if _is_unspaced(word):
            keys |= _pairs(word)
        else:
            keys.add(word)


def _pairs(word: str) -> set[str]:
    """The characters of a stretch, and each with the next."""
    return {*word, *map("".join, itertools.pairwise(word))}


class WordSearch(Struct, frozen=True):
    """Words all of which a text holds, in any order."""

    spaced: frozenset[str]  # as whole words
    unspaced: tuple[str, ...]  # anywhere
    keys: tuple[str, ...]  # all of which the filter of a block has to hold

    @staticmethod
    def of(asked: str) -> "WordSearch":
        """The search for some words.

        Raises:
            ValueError: it has no words, or too many.
        """
        words = dict.fromkeys(pieces(normalised(asked)))
        if not words:
            raise ValueError(f"words: {asked[:100]!r} holds no word; name letters or digits")
        if len(words) > MOST_WORDS:
            raise ValueError(f"words: {len(words)} words, {MOST_WORDS} are allowed; name fewer")
        unspaced = [word for word in words if _is_unspaced(word)]
        keys = [word for word in words if not _is_unspaced(word)]
        for word in unspaced:
            keys += sorted(_pairs(word) if len(word) == 1 else _pairs(word) - {*word})
        return WordSearch(frozenset(words) - {*unspaced}, tuple(unspaced), tuple(keys))

    def fits(self, *texts: str | None) -> bool:
        """True where the texts together hold all words."""
        text = normalised("\n".join(text for text in texts if text))
        return (
            all(word in text for word in self.spaced)
            and all(word in text for word in self.unspaced)
            and self.spaced <= {*pieces(text)}
        )
