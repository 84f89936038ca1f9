"""Mentions of an id in what could not be understood, where no field says whose it is."""

from typing import Any

import msgspec

_MOST_NESTED = 2  # JSON within JSON within JSON
_MOST_DEPTH = 64
_ESCAPED = "nrt"  # a line break in JSON ends with a letter


class Mention:
    """One id, and the ways in which JSON may write it."""

    def __init__(self, name: str) -> None:
        self.name = name
        spellings = {name: None}
        for ascii_only in (False, True):
            written = name
            for _ in range(_MOST_NESTED):
                written = _in_json(written, ascii_only)
                spellings[written] = None
        self._spellings = tuple(spellings)
        self._needles = tuple(written.encode(errors="surrogatepass") for written in spellings)

    def is_within(self, body: bytes) -> bool:
        """True for bytes that hold it somewhere, a part of a longer word included."""
        return any(needle in body for needle in self._needles)

    def is_in_text(self, text: str) -> bool:
        """True for a text that holds it as a word of its own."""
        return any(_is_word(text, written) for written in self._spellings)

    def is_in(self, value: Any, depth: int = 0) -> bool:
        """True for a decoded value of which some text, key or number mentions it."""
        match value:
            case str():
                return self.is_in_text(value)
            case bytes():
                return self.is_within(value)
            case dict() if depth < _MOST_DEPTH:
                pairs = value.items()
                return any(self.is_in(key, depth + 1) or self.is_in(item, depth + 1)
                           for key, item in pairs)  # fmt: skip
            case list() | tuple() if depth < _MOST_DEPTH:
                return any(self.is_in(item, depth + 1) for item in value)
            case dict() | list() | tuple():
                return True  # nobody looks so deep
        return str(value) == self.name


def _in_json(text: str, ascii_only: bool) -> str:
    """The text as it is written between the quotes of JSON."""
    written = msgspec.json.encode(text.encode(errors="replace").decode()).decode()[1:-1]
    if not ascii_only:
        return written
    return "".join(each if each.isascii() else _escaped(each) for each in written)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _is_word(text: str, word: str) -> bool:
    at = text.find(word)
    while at >= 0:
        end = at + len(word)
        if _is_boundary(text, at) and not (end < len(text) and text[end].isalnum()):
            return True
        at = text.find(word, at + 1)
    return False


def _is_boundary(text: str, at: int) -> bool:
    """True where a word may begin: behind no letter, save that of an escape."""
    if at == 0 or not text[at - 1].isalnum():
        return True
    return at > 1 and text[at - 1] in _ESCAPED and text[at - 2] == "\\"
