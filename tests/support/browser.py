"""A real Chromium, driven by Playwright; skipped where either is missing, but not in CI."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from tests.support.tools import program

DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
_MOST_WAIT_MS = 30_000  # on a machine with a core for eight

_ARGUMENTS = (
    "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync",
    "--disable-component-update", "--disable-dev-shm-usage", "--no-first-run",
)  # fmt: skip


def _sync_playwright() -> Any:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing = "playwright is not installed; run `make test`"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return sync_playwright


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium without a window."""
    with _sync_playwright()() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program("chromium"), args=list(_ARGUMENTS), chromium_sandbox=False
        )
        try:
            yield chromium
        finally:
            chromium.close()


_TOO_WIDE = """() => {
  const wide = innerWidth;
  if (document.documentElement.scrollWidth <= wide) return [];
  return [...document.querySelectorAll("main *")]
    .filter((one) => one.getBoundingClientRect().right > wide + 1)
    .map((one) => one.outerHTML.slice(0, 150)).slice(0, 12);
}"""


class Tab(NamedTuple):
    """A page in the browser, and what went wrong on it."""

    page: Any
    troubles: list[str]

    def open(self, path: str) -> Any:
        """Go to a path; answers its response."""
        return self.page.goto(path, wait_until="load")

    def look(self, width: dict[str, int], scheme: str) -> None:
        """See it at a width, in light or dark."""
        self.page.set_viewport_size(width)
        self.page.emulate_media(color_scheme=scheme)

    def too_wide(self) -> list[str]:
        """Elements beyond the edge of a page that scrolls sideways; none where it does not."""
        beyond: list[str] = self.page.evaluate(_TOO_WIDE)
        return beyond

    def violations(self) -> list[str]:
        """Rules that axe-core finds broken: serious and critical ones, with their elements."""
        from axe_playwright_python.sync_playwright import Axe

        options = {"resultTypes": ["violations"]}
        broken = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
            for rule in broken
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"][:3]
        ]


@contextmanager
def tab(chromium: Any, url: str) -> Iterator[Tab]:
    """A tab whose paths begin at a URL; whatever the console says and other hosts are troubles."""
    context = chromium.new_context(base_url=url, viewport=DESKTOP, timezone_id="America/New_York")
    context.set_default_timeout(_MOST_WAIT_MS)
    page, troubles = context.new_page(), []

    def said(message: Any) -> None:
        if message.type in ("error", "warning"):
            troubles.append(f"console {message.type}: {message.text}")

    def asked(request: Any) -> None:
        if not request.url.startswith(f"{url}/"):
            troubles.append(f"request to {request.url[:100]}")

    def opened(dialog: Any) -> None:
        troubles.append(f"dialog: {dialog.message[:100]}")
        dialog.dismiss()

    page.on("console", said)
    page.on("request", asked)
    page.on("dialog", opened)
    page.on("pageerror", lambda error: troubles.append(f"exception: {error}"))
    try:
        yield Tab(page, troubles)
    finally:
        context.close()
