"""Words of a text: runs of letters and digits, and stretches of scripts without spaces."""

import re
import unicodedata
from functools import cache

# Scripts whose words no space divides: Thai to Tibetan, Myanmar, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_PIECE = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_starts_unspaced = re.compile(f"[{_UNSPACED}]").match
_MOST_MARKS = 30
_MARKS_IN_EFFECT = "\u0f73\u0f75\u0f81\uff9e\uff9f"  # they become combining marks
ascii_words = re.compile(r"[a-z0-9_]+").findall
"""The words of a normalised text that is ASCII."""


def normalised(text: str) -> str:
    """A text in which words are alike that a reader takes for the same."""
    if text.isascii():
        return text.lower()
    return compatible(text.casefold())


def compatible(text: str) -> str:
    """A text in Normalization Form KC, without the marks beyond 30 in a row.

    To sort a row of combining marks takes time by the square of its length: 16 s for 240 kB, in
    which nothing else runs. No language has more than a few; 30 is the limit of Unicode's
    Stream-Safe Text Format (UAX #15, section 13).
    """
    return unicodedata.normalize("NFKC", _rows_of_marks().sub(_shortened, text))


@cache
def _rows_of_marks() -> re.Pattern[str]:
    """Rows of more than 30 characters that are combining marks, or beyond U+FFFF and may be.

    With a class of this form, and one character before the repeat, ``re`` skips others fast.
    """
    marks = [char for char in map(chr, range(0x300, 0x10000)) if unicodedata.combining(char)]
    maybe = f"[{''.join(marks)}{_MARKS_IN_EFFECT}\U00010000-\U0001ffff]"
    return re.compile(f"{maybe}{maybe}{{{_MOST_MARKS},}}")


def _shortened(row: re.Match[str]) -> str:
    kept, marks = [], 0
    for char in row[0]:
        is_mark = unicodedata.combining(char) or char in _MARKS_IN_EFFECT
        marks = marks + 1 if is_mark else 0
        if marks <= _MOST_MARKS:
            kept.append(char)
    return "".join(kept)


def pieces(text: str) -> list[str]:
    """The words of a normalised text; a stretch without spaces between its words is one."""
    return ascii_words(text) if text.isascii() else _PIECE.findall(text)


def is_unspaced(piece: str) -> bool:
    """True for a stretch of a script without spaces between words."""
    return not piece.isascii() and _starts_unspaced(piece) is not None
