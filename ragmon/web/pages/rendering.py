"""Templates turned into answers, with the headers that every page has."""

from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup
from starlette.responses import HTMLResponse

from ragmon import __version__
from ragmon.alerts.timeline import silenced_text
from ragmon.counts import counted
from ragmon.web.pages import words
from ragmon.web.pages.assets import Assets
from ragmon.web.visitors import VISITOR

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self';"
    " img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self';"
    " frame-ancestors 'self'",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "same-origin",  # with less, browsers send forms without their origin
    "x-content-type-options": "nosniff",
}
"""Only ragmon's own script runs on a page, whatever a log line holds, and no copy is kept."""


def query_address(query_id: str) -> str:
    """Path of one query."""
    return f"/queries/{quote(query_id, safe=':')}"


class Renderer:
    """Renders the templates of this package; everything is escaped that is not markup already."""

    def __init__(self, assets: Assets) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("ragmon.web.pages"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters |= {
            "text": words.text,
            "plain": words.plain,
            "sentence": words.sentence,
            "headline": words.headline,
            "whole": words.whole,
            "figure": words.figure,
            "size": words.size,
            "when": words.when,
            "duration": words.duration,
            "silenced": silenced_text,
        }
        self._environment.globals |= {
            "asset": assets.address,
            "query_address": query_address,
            "counted": counted,
            "svg": Markup,
            "span": words.span,
            "version": __version__,
        }
        macros = self._environment.get_template("macros.html").module
        self._environment.globals["macros"] = macros

    def page(self, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """A template as an answer.

        Args:
            template: file below ``templates``.
            status: of the answer.
            context: names that the template reads; a missing one is an error.
        """
        page = self._environment.get_template(template)
        html = page.render(context, visitor=VISITOR.get())
        return HTMLResponse(html, status, headers=HEADERS)
