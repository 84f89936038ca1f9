"""Words of questions and answers, as a search by words sees them."""

import itertools

from msgspec import Struct

from ragmon.word_pieces import ascii_words, is_unspaced, normalised, pieces

MOST_WORDS = 20
"""Words that one search may ask for."""


def keys_of(text: str) -> set[str]:
    """Keys of a text in the filter of a block: its words, and pairs of unspaced characters."""
    keys: set[str] = set()
    add_keys(text, keys)
    return keys


def add_keys(text: str, keys: set[str]) -> None:
    """Add ``keys_of`` a text to others."""
    if text.isascii():
        keys.update(ascii_words(text.lower()))
        return
    for word in set(pieces(normalised(text))):
        if is_unspaced(word):
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
        unspaced = [word for word in words if is_unspaced(word)]
        keys = [word for word in words if not is_unspaced(word)]
        for word in unspaced:
            keys += sorted(_pairs(word) if len(word) == 1 else _pairs(word) - {*word})
        return WordSearch(frozenset(words) - {*unspaced}, tuple(unspaced), tuple(keys))

    def fits(self, *texts: str | None) -> bool:
        """True where the texts together hold all words."""
        text = normalised("\n".join([text for text in texts if text]))
        for word in self.spaced:  # a loop: generators take as long again as looking
            if word not in text:
                return False
        for word in self.unspaced:
            if word not in text:
                return False
        return self.spaced <= {*pieces(text)}
