"""Words of a text: runs of letters and digits, and stretches of scripts without spaces."""

import re
import unicodedata

# Scripts whose words no space divides: Thai to Tibetan, Myanmar, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_PIECE = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_starts_unspaced = re.compile(f"[{_UNSPACED}]").match
ascii_words = re.compile(r"[a-z0-9_]+").findall
"""The words of a normalised text that is ASCII."""


def normalised(text: str) -> str:
    """A text in which words are alike that a reader takes for the same."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text.casefold())


def pieces(text: str) -> list[str]:
    """The words of a normalised text; a stretch without spaces between its words is one."""
    return ascii_words(text) if text.isascii() else _PIECE.findall(text)


def is_unspaced(piece: str) -> bool:
    """True for a stretch of a script without spaces between words."""
    return not piece.isascii() and _starts_unspaced(piece) is not None
