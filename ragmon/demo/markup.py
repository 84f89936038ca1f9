"""The plain text that Sphinx makes of a documentation page, taken apart into readable blocks.

A page is headings with underlines, paragraphs between blank lines, indented code and grammar,
tables drawn with ``|``, and literals in straight quotes. What comes out are sections of blocks:
prose on one line, code as it was, and whatever belongs together (a method with its description,
``For example:`` with its example) in one block.
"""

import re
import textwrap
from itertools import groupby, pairwise

from msgspec import Struct

_UNDERLINE = re.compile(r'([*=\-~^"])\1+')
_BORDER = re.compile(r"^\s*[+|][-=+|]+$")
_ITEM = re.compile(r"\s*(?:\* |\*\*|\d+\. |\[\d+\] )")
_SIGNATURES = re.compile(r"(?:\s*(?:class |static |classmethod )?[\w.]+\(.*\)\n?)+")
_SENTENCES = re.compile(r"\s*[\"'(]?[A-Z][^=]*[.:;]")
_DEFINED = re.compile(r"[\w.]+(?:\(|$)", re.MULTILINE)  # object.__del__(self)
_LITERAL = re.compile(r"""(?<!\w)"(?!\s)("[^"]*"|[^"]+)(?<!\s)"(?!\w)""")
_CODE = re.compile(
    r">>>|\(Pdb\)|::=|^\s*(?:async|class|def|else|for|if|try|while|with)\b.*:(?:\s|$)", re.MULTILINE
)
_ENGLISH = re.compile(
    r"\b(?:an|are|be|by|changed|it|its|new|of|that|the|this|to|used|which)\b", re.IGNORECASE
)
_STRAIGHT = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "\u00a0": " "})
_WORDS_TO_ONE_ENGLISH = 14  # Prose holds one of the words above at least this often.


class MarkupSection(Struct, frozen=True):
    """Blocks under one heading."""

    title: str
    blocks: tuple[str, ...]


def sections(page: str) -> list[MarkupSection]:
    """A page cut at its headings; a heading with nothing under it is left out."""
    lines = page.translate(_STRAIGHT).splitlines()
    heads = [at for at in range(len(lines) - 1) if _is_heading(lines[at], lines[at + 1])]
    cut = [
        MarkupSection(prose(lines[start]), tuple(_blocks("\n".join(lines[start + 2 : end]))))
        for start, end in pairwise([*heads, len(lines)])
    ]
    return [section for section in cut if section.blocks]


def prose(paragraph: str) -> str:
    """One line of plain text: emphasis dropped, literals in backticks, hyphens closed up."""
    text = " ".join(re.sub(r"(\w)-\n\s*(?=\w)", r"\1-", paragraph).split())
    between = _LITERAL.split(text)  # Literals at odd places; a star in one is not emphasis.
    between[::2] = [re.sub(r"(\*{1,2})(\w[^*]*)\1", r"\2", words) for words in between[::2]]
    between[1::2] = [f"`{literal}`" for literal in between[1::2]]
    return "".join(between)


def _is_heading(line: str, below: str) -> bool:
    return bool(line.strip()) and bool(_UNDERLINE.fullmatch(below)) and len(below) >= len(line)


def _blocks(body: str) -> list[str]:
    parts = [part.strip("\n") for part in re.split(r"\n\s*\n", body)]
    paragraphs = [part for part in parts if part.strip(" -=[]") not in ("", "Footnotes")]
    blocks: list[str] = []
    defining = False
    for paragraph, below in pairwise([*paragraphs, ""]):
        text = _clean(paragraph)
        if blocks and (defining or _continues(blocks[-1], text, paragraph)):
            blocks[-1] = _joined(blocks[-1], text)
        else:
            blocks.append(text)
        defining = _is_term(paragraph, below)
    return blocks


def _continues(above: str, text: str, paragraph: str) -> bool:
    """True if a paragraph belongs to the block above it."""
    sentence_goes_on = text[0].islower() and not _DEFINED.match(text)
    return above[-1] in ":," or sentence_goes_on or _is_code(paragraph)


def _joined(above: str, below: str) -> str:
    label = above.count(" ") < 3 and above.endswith(":")
    return f"{above} {below}" if label and "\n" not in below else f"{above}\n{below}"


def _is_term(paragraph: str, below: str) -> bool:
    """True for a term (``str.find(sub)``) that the deeper paragraph below it defines."""
    ends_a_sentence = paragraph.rstrip()[-1] in ".:;,"
    return not ends_a_sentence and bool(below) and _indent(below) > _indent(paragraph)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _clean(paragraph: str) -> str:
    if _BORDER.match(paragraph.split("\n", 1)[0]):
        return _table(paragraph)
    if _is_code(paragraph):
        return textwrap.dedent(paragraph)
    if _SIGNATURES.fullmatch(paragraph):
        return textwrap.dedent(paragraph)
    first, _, rest = paragraph.partition("\n")
    if rest and _indent(rest) > _indent(first) and not _ITEM.match(first):
        return f"{prose(first).rstrip(':')}: {prose(rest)}"  # The term, then what it means.
    return re.sub(r"^\* ", "- ", prose(paragraph))


def _is_code(paragraph: str) -> bool:
    if paragraph.startswith(">>>"):
        return True
    if _indent(paragraph) == 0 or _ITEM.match(paragraph):
        return False
    marked = bool(_CODE.search(paragraph))
    if not marked and _SENTENCES.fullmatch(paragraph):
        return False
    english = len(_ENGLISH.findall(paragraph))
    most = len(paragraph.split()) / _WORDS_TO_ONE_ENGLISH
    return english < (2 * most if marked else most)


def _table(drawn: str) -> str:
    """Each row of a table on a line of its own: ``first cell: second cell, third cell``."""
    grouped = groupby(drawn.splitlines(), key=lambda line: bool(_BORDER.match(line)))
    rows = [[_cells(line) for line in lines] for is_border, lines in grouped if not is_border]
    merged = [[prose(" ".join(parts)) for parts in zip(*row, strict=False)] for row in rows]
    return "\n".join(f"{first}: {', '.join(filter(None, rest))}" for first, *rest in merged)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split(" | ")]
