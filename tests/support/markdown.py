"""Pages of Markdown: their links, headings and code blocks."""

import functools
import re
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

FOLDERS = ("ragmon", "tests", "deploy", "grafana", "helm")

_FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\])\(([^()\s]+(?:\([^()\s]*\))?)(?: \"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]*`")


class Fence(NamedTuple):
    """A fenced code block."""

    language: str
    text: str
    line: int


class Page:
    """One Markdown file."""

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8") if text is None else text

    @property
    def name(self) -> str:
        """Path below the repository."""
        return str(self.path.relative_to(ROOT))

    @functools.cached_property
    def fences(self) -> list[Fence]:
        """Code blocks, without their indentation."""
        return [
            Fence(
                match[3],
                re.sub(rf"(?m)^{match[1]}", "", match[4]),
                self.text.count("\n", 0, match.start()) + 1,
            )
            for match in _FENCE.finditer(self.text)
        ]

    @functools.cached_property
    def prose(self) -> str:
        """Everything outside code blocks."""
        return _FENCE.sub("", self.text)

    @functools.cached_property
    def links(self) -> list[str]:
        """Targets of links and images."""
        return _LINK.findall(_CODE.sub("``", self.prose))

    @functools.cached_property
    def anchors(self) -> set[str]:
        """Headings as GitHub names them in addresses."""
        return {_slug(heading) for heading in _HEADING.findall(self.prose)}

    @functools.cached_property
    def codes(self) -> list[str]:
        """Code in the middle of prose, without the backticks."""
        return [code[1:-1] for code in _CODE.findall(self.prose)]


def _slug(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@functools.cache
def pages() -> list[Page]:
    """Markdown files of the repository."""
    nested = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))
    return [Page(path) for path in sorted([*ROOT.glob("*.md"), *nested])]
