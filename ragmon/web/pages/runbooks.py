"""Runbooks, served beside the alerts that link to them: public text, which needs no token."""

import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

import ragmon
from ragmon.asgi import Problem
from ragmon.plugins import remedy
from ragmon.web.api import Page
from ragmon.web.page_endpoints import RUNBOOK, RUNBOOKS
from ragmon.web.pages.rendering import Renderer

_MEANING = re.compile(r"## Meaning\n\n(.+?)\n\n", re.DOTALL)


def folder() -> Path:
    """Folder of the runbooks, as installed or as in a checkout."""
    package = Path(ragmon.__file__).parent
    installed, checkout = package / "runbooks", package.parent / "deploy/runbooks"
    return installed if installed.is_dir() else checkout


class RunbookSection:
    """Endpoints of the runbooks."""

    def __init__(self, renderer: Renderer, runbooks: Path | None = None) -> None:
        """Make it.

        Args:
            renderer: of the pages.
            runbooks: folder of the Markdown files; None: those that ragmon brings.
        """
        self._renderer = renderer
        self._folder = runbooks or folder()

    def pages(self) -> Sequence[Page]:
        """Its endpoints."""
        return (Page(RUNBOOKS, self.listed), Page(RUNBOOK, self.runbook))

    async def listed(self, _: Request) -> Response:
        """All of them, with what each alert means."""
        texts = {name: self._text(name) for name in self._names()}
        meanings = {
            name: _plain(match[1]) if (match := _MEANING.search(text)) else ""
            for name, text in texts.items()
        }
        return self._renderer.page("runbooks.html", meanings=meanings)

    async def runbook(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["name"].removesuffix(".md")
        names = self._names()
        if name not in names:
            hint = remedy(name, names)
            raise Problem(404, f"there is no runbook {name!r}; {hint}", reason="not_found")
        html = _html(self._text(name))
        return self._renderer.page("runbook.html", name=name, html=html)

    def _names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.md"))

    def _text(self, name: str) -> str:
        return (self._folder / f"{name}.md").read_text(encoding="utf-8")


def _html(text: str) -> Markup:
    """Markdown as HTML; what is HTML in it already is shown as text."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 - few read one, and the start is faster

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    return Markup(parser.render(text))  # noqa: S704 - of files that ragmon brings, escaped


def _plain(markdown: str) -> str:
    """Its first sentence, without marks."""
    text = re.sub(r"[`*]|\s+", lambda match: " " if match[0].isspace() else "", markdown)
    text = text.strip().removeprefix("Raised by ragmon itself: ")
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]
