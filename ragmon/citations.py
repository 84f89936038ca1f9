"""Citation markers in an answer, for applications that do not log citations apart."""

import re
from collections.abc import Sequence

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_MARKER = re.compile(r"\[([^\[\]\n]{1,256})\]")
_CODE_OR_MARKER = re.compile(f"{_CODE.pattern}|{_MARKER.pattern}", re.DOTALL)
_SEPARATOR = re.compile("[,;]")
_MOST_DIGITS = 3  # [2024] is a year, not the two thousandth chunk


def parse(answer: str, chunk_ids: Sequence[str]) -> list[str] | None:
    """Chunk ids that the answer cites as ``[1]`` (counted from 1) or ``[id]``.

    Returns:
        Distinct ids in the order of their first marker; a number beyond the chunks is kept as
        it stands, since it cites something never retrieved. None when no marker names a chunk:
        then the citations are unknown.
    """
    if "[" not in answer:
        return None
    known = set(chunk_ids)
    cited: dict[str, bool] = {}
    for marker in _MARKER.findall(_CODE.sub(" ", answer)):
        for token in _tokens(marker):
            chunk = _resolve(token, chunk_ids, known)
            if chunk is not None:
                cited[chunk] = chunk in known
    return list(cited) if any(cited.values()) else None


def without_markers(answer: str, chunk_ids: Sequence[str]) -> str:
    """The answer without the markers that ``parse`` reads."""
    if parse(answer, chunk_ids) is None:
        return answer
    known = set(chunk_ids)

    def without_citation(match: re.Match[str]) -> str:
        tokens = _tokens(match[1] or "")
        cites = all(_resolve(token, chunk_ids, known) is not None for token in tokens)
        return "" if cites else match[0]

    return _CODE_OR_MARKER.sub(without_citation, answer)


def _tokens(marker: str) -> list[str]:
    return [token.strip() for token in _SEPARATOR.split(marker)]


def _resolve(token: str, chunk_ids: Sequence[str], known: set[str]) -> str | None:
    if token in known:
        return token
    number = token.removeprefix("^")
    if not (number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS):
        return None
    position = int(number)
    return chunk_ids[position - 1] if 1 <= position <= len(chunk_ids) else number
