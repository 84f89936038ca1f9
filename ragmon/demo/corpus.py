"""The documents of the demo: the Python language reference that every Python carries.

``pydoc_data.topics`` is what ``help("booleans")`` prints. Its topics overlap (``compound`` holds
``if``, ``for`` and ``try`` again), so a section that several topics share is kept once, under
the shortest of them; no two chunks then answer the same question with the same words.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module

from ragmon.demo.markup import MarkupSection, sections
from ragmon.records import Chunk

MOST_WORDS = 150
FEWEST_WORDS = 60
_FRAGMENT_WORDS = 8  # A section shorter than this ("New in version 3.5.") answers nothing.
_CUTS = (r"(?=\n)", r"(?<=[.:;])(?= )")  # Between lines first, then between sentences.


def corpus() -> tuple[Chunk, ...]:
    """The running Python's own language reference, in chunks without scores."""
    topics: Mapping[str, str] = import_module("pydoc_data.topics").topics
    return tuple(chunks(topics))


def chunks(topics: Mapping[str, str]) -> Iterator[Chunk]:
    """Chunks of mostly 60 to 150 words with ids like ``booleans#2``, topic by topic.

    Args:
        topics: the text of each topic, by its key.
    """
    seen: set[tuple[str, ...]] = set()
    for topic in sorted(topics, key=lambda key: (len(topics[key]), key)):
        number = 0
        for section in sections(topics[topic]):
            if section.blocks in seen or _words(*section.blocks) < _FRAGMENT_WORDS:
                continue
            seen.add(section.blocks)
            for text in pack(section):
                number += 1
                yield Chunk(id=f"{topic}#{number}", text=text, source=topic)


def pack(section: MarkupSection) -> Iterator[str]:
    """A section's blocks in order, as texts under its title.

    Blocks are gathered until they are long enough to stand alone; one that would make a text
    too long starts the next, and one too long in itself is cut between sentences or lines.
    """
    texts: list[list[str]] = [[]]
    for block in section.blocks:
        for part in _parts(block):
            room = MOST_WORDS - _words(*texts[-1])
            if texts[-1] and (room <= MOST_WORDS - FEWEST_WORDS or _words(part) > room):
                texts.append([])
            texts[-1].append(part)
    if len(texts) > 1 and _words(*texts[-1], *texts[-2]) <= MOST_WORDS:
        texts[-2:] = [texts[-2] + texts[-1]]
    return ("\n\n".join([section.title, *text]) for text in texts)


def _parts(block: str, cuts: tuple[str, ...] = _CUTS) -> list[str]:
    if _words(block) <= MOST_WORDS or not cuts:
        return [block]
    parts: list[str] = [""]
    for line in re.split(cuts[0], block):
        for piece in _parts(line, cuts[1:]):
            if parts[-1] and _words(parts[-1], piece) > MOST_WORDS:
                parts.append("")
            parts[-1] += piece
    return [part.strip("\n ") for part in parts]


def _words(*texts: str) -> int:
    return sum(len(text.split()) for text in texts)
