"""Search for what to redact, rule by rule, in any script."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple
from unicodedata import decimal, normalize

Span = tuple[int, int, str]  # start, end, placeholder
Judge = Callable[[re.Match[str]], Span | None]

EDGE = r"(?<![\w\]])"
"""Pattern of the start of a word; what follows a placeholder at once belongs to its word."""


class RedactionRule(NamedTuple):
    """One kind of thing to replace: a candidate by shape, then a verdict on it.

    After a refused candidate the search goes on at its end, so a pattern only looks ahead at
    what may hold another one.
    """

    needles: tuple[str, ...]  # lower case; a text without any cannot match; (): always try
    pattern: re.Pattern[str]
    judge: Judge


def find(text: str, rules: Sequence[RedactionRule]) -> list[Span]:
    """The spans that the rules replace, in order and apart from each other.

    With these replaced others may show beside them: search again until there is none.

    Args:
        text: of any length and script.
        rules: in the order in which they choose.
    """
    folded, positions = _fold(text)
    lower = folded.lower()
    spans: list[Span] = []
    for rule in rules:
        if not rule.needles or any(map(lower.__contains__, rule.needles)):
            fresh = _scan(rule, folded)
            if fresh:
                folded = rewrite(folded, fresh, _mask)
                spans += fresh
    if positions:
        spans = [(positions[start], positions[end - 1] + 1, name) for start, end, name in spans]
    return _merge(spans) if len(spans) > 1 else spans


def _scan(rule: RedactionRule, text: str) -> list[Span]:
    spans: list[Span] = []
    at = 0
    while match := rule.pattern.search(text, at):
        span = rule.judge(match)
        if span:  # What a judge looks back at may have been taken already.
            spans.append((max(span[0], at), span[1], span[2]))
        at = span[1] if span else match.end()
    return spans


def rewrite(text: str, spans: list[Span], name: Callable[[Span], str]) -> str:
    """The text with every span replaced by its name."""
    pieces: list[str] = []
    kept = 0
    for span in spans:
        pieces += (text[kept : span[0]], name(span))
        kept = span[1]
    return "".join((*pieces, text[kept:]))


def _mask(span: Span) -> str:
    return f"[{chr(0) * (span[1] - span[0] - 2)}]"


def named(placeholder: str) -> Judge:
    """Judges every match to be the thing: its group where it has one, else all of it."""

    def judge(match: re.Match[str]) -> Span:
        return (*match.span(match.lastindex or 0), placeholder)

    return judge


def _merge(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end, placeholder in sorted(spans):
        if merged and start < merged[-1][1]:
            first, last, name = merged[-1]
            merged[-1] = (first, max(last, end), name)
        else:
            merged.append((start, end, placeholder))
    return merged


_INVISIBLE = "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_DASHES = "\u2010-\u2015\u2212"
_HIDDEN = re.compile(f"[{_INVISIBLE}]")
_DASH = re.compile(f"[{_DASHES}]")
_DISGUISED = re.compile(
    f"[^\x00-\x7f](?<=[\\d\uff01-\uff5e\ufe6b\xa0\u2000-\u200a\u202f\u3000{_DASHES}])"
)


def _fold(text: str) -> tuple[str, list[int] | None]:
    """The text in ASCII as far as patterns need it.

    Returns:
        (folded, positions): where each folded character stood, None when nothing moved.
    """
    if text.isascii():
        return text, None
    positions = None
    if _HIDDEN.search(text):
        positions = [index for index, char in enumerate(text) if not _HIDDEN.match(char)]
        text = _HIDDEN.sub("", text)
    return _DISGUISED.sub(_plain, text), positions


def _plain(match: re.Match[str]) -> str:
    char = match[0]
    if char.isdecimal():
        return str(decimal(char))
    return "-" if _DASH.match(char) else normalize("NFKC", char)
